// Programs over lists of tensors: an optimizer's step or a norm over all parameters of a model, in
// one launch however many tensors there are. Plain C++20.
//
// In the text the arguments and results are lists, marked `kiln.list`, or numbers that all entries
// share:
//   func.func @decay(%p: tensor<?xf32> {kiln.list}, %f: tensor<f32>)
//       -> (tensor<?xf32> {kiln.list}) { ... }
// Lists may belong to parts, `kiln.list = 1` to the second: lists of a part have as many tensors,
// of the same lengths, and what differs from parameter to parameter (a dtype, a number of the text)
// may differ from part to part, in the same launch.
//
// Where the tensors lie is written once into a table, which the kernels read. With p, m, v and g as
// vectors of a kiln::Buffer each:
//   kiln::TensorLists lists(program.lists(), {{p, g, m, v}}, {{p, m, v}});  // in place
//   lists.upload(table, stream);                   // lists.tableBytes() of device memory
//   auto inputs = lists.inputs(table, {{lr, step, scale}});
//   executable.launch(inputs, {}, workspace, stream);               // again and again
// A launch neither allocates nor waits, so it may be captured into a graph. Launches with one table
// follow each other, in one stream say: where sums are taken, blocks count themselves there. A
// launch may read the table while the kernel ahead of it runs, so no kernel writes it; copies may.
// A result that is a number may take the place of an argument if the program takes sums and reads
// the argument for results that are numbers only.
#pragma once

#include "kiln/kiln.h"

namespace kiln {

/// The tensors of one list argument or result, one an entry: contiguous, of any shape.
using TensorList = std::vector<Buffer>;

/// The table of one set of tensors, which themselves are neither read nor owned.
class KILN_API TensorLists {
 public:
  /// `inputs` and `outputs` are the lists that `info` names, in its order; pointers are those that
  /// the kernels will use. The i-th tensors of all lists of a part have one length in elements,
  /// which may be 0 (then pointers may be null). A result may be the same memory as an argument of
  /// its entry and element size; otherwise no two tensors overlap. Throws Error(input) for lists or
  /// tensors that are missing, of different lengths, strided or null, and for 2^31 chunks or more.
  TensorLists(const ListsInfo& info, std::span<const TensorList> inputs,
              std::span<const TensorList> outputs);

  /// For tensors of the same lengths that lie elsewhere now: rewrites where they lie and returns
  /// that part of table(), its end, for whoever keeps the table in device memory up to date.
  std::span<const std::byte> relocate(const ListsInfo& info, std::span<const TensorList> inputs,
                                      std::span<const TensorList> outputs);

  std::size_t entries() const;                           // of all parts
  std::int64_t elements() const { return elementCount; } // of a list of each part
  std::int64_t chunks() const { return chunkCount; } // elements of different entries never share

  /// The table as it shall lie in device memory, at an address that is a multiple of 16.
  std::span<const std::byte> table() const { return std::as_bytes(std::span(words)); }
  std::size_t tableBytes() const { return table().size(); }
  /// Copies the table to `device` on `stream` of the current context. From pageable memory: not
  /// while the stream is being captured; the object may die as soon as the call returns. Whoever
  /// has pinned memory copies table() there and from there to the device.
  void upload(void* device, void* stream) const;

  /// What a launch takes as inputs: the arguments that are no lists, then the table, which lies at
  /// `device`, as two buffers for each part and, if the program counts, that of the counter. On the
  /// host (Program::runOnHost) that is table().data().
  std::vector<Buffer> inputs(const void* device, std::span<const Buffer> shared) const;

 private:
  /// Where one part of the program finds its own in the table, in words.
  struct Part {
    std::size_t chunksBegin = 0, segmentsBegin = 0, recordWords = 1, entries = 0;
    std::int64_t chunks = 0;
  };
  static std::vector<std::uint64_t> recordsOf(const ListsInfo& info, int number,
                                              std::span<const TensorList> inputs,
                                              std::span<const TensorList> outputs, Part& part);
  void addChunks(const ListsInfo& info, std::span<const std::uint64_t> records, Part& part);

  // The counter if there is one, chunks of all parts, then their segments; each to 16 bytes.
  std::vector<std::uint64_t> words;
  std::vector<Part> parts;
  bool counts = false;
  std::int64_t elementCount = 0, chunkCount = 0;
};

} // namespace kiln
