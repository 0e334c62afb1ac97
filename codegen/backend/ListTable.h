// The table of lists read back (kiln/lists.h writes it), for whoever must know where the tensors
// lie.
#pragma once

#include "kiln/lists.h"

namespace kiln {

/// A tensor that a table names.
struct ListedTensor {
  const TensorInfo* list; // of the info
  bool isOutput;
  std::size_t entry;
  void* data;
  std::size_t bytes;
};

/// All of one part, from the second of its two buffers in the table: the records of its entries.
std::vector<ListedTensor> tensorsOfTable(const ListsInfo& info, int part, const Buffer& records);

} // namespace kiln
