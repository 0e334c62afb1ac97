// Where the tensors of a program over lists lie: a table in the memory of their device, rewritten
// when they move. Nothing waits for the device.
#pragma once

#include "kiln/lists.h"
#include "runtime/Backend.h"

#include <memory>
#include <optional>
#include <vector>

namespace kiln::optim {

class ListTable {
 public:
  ListTable(runtime::Backend& backend, at::Device device) : backend(backend), device(device) {}

  /// Whether the table says so already. A graph gets one of its own: that of later launches may say
  /// something else.
  bool liesAt(const std::vector<const void*>& wanted) const {
    return wanted == pointers && !backend.isCapturing();
  }
  /// The tensors of `wanted` as lists, of the same lengths in each call; `given`: what the program
  /// takes beside lists.
  void locate(std::vector<const void*> wanted, const ListsInfo& info,
              std::span<const TensorList> inputs, std::span<const TensorList> outputs,
              std::span<const Buffer> given);
  /// Behind a launch: the table of a captured one stays as it is.
  void launched();

  /// Of a launch: `given`, and the table.
  std::vector<Buffer> arguments;

  /// Copies bytes to `there`, if it is given, behind what is enqueued. A graph copies at each
  /// replay.
  at::Tensor upload(std::span<const std::byte> bytes, at::Tensor there = {});

 private:
  runtime::Backend& backend;
  at::Device device;
  std::vector<const void*> pointers;
  std::optional<TensorLists> lists;
  at::Tensor table;             // undefined: on no device yet
  std::vector<at::Tensor> kept; // what captured graphs use
};

/// A tensor as an entry of a list.
inline Buffer entryOf(const at::TensorBase& tensor) {
  return {tensor.data_ptr(), {tensor.numel()}, {}};
}

} // namespace kiln::optim
