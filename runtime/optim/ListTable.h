// Where the tensors of a program over lists lie: a table in the memory of their device, rewritten
// when they move, but never once a graph uses it. Nothing waits for the device.
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

  /// Whether the table says so already. One that only a graph's replays write is nobody else's.
  bool liesAt(const std::vector<const void*>& wanted) const {
    return wanted == pointers && !isWrittenByGraph;
  }
  /// The tensors of `wanted` as lists, of the same lengths in each call; `given`: what the program
  /// takes beside lists.
  void locate(std::vector<const void*> wanted, const ListsInfo& info,
              std::span<const TensorList> inputs, std::span<const TensorList> outputs,
              std::span<const Buffer> given);
  /// Behind each launch.
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
  at::Tensor table;    // undefined: on no device yet
  bool isKept = false; // a graph uses it
  bool isWrittenByGraph = false;
  std::vector<at::Tensor> kept; // what captured graphs use
};

/// A tensor as an entry of a list.
inline Buffer entryOf(const at::TensorBase& tensor) {
  return {tensor.data_ptr(), {tensor.numel()}, {}};
}

} // namespace kiln::optim
