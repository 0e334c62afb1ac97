// A program over lists that is run again and again, mostly on tensors that lie where they lay: made
// when it is first wanted, and anew for lists of other dtypes or lengths and for another device.
#pragma once

#include "runtime/optim/ListProgram.h"
#include "runtime/optim/ListTable.h"

#include <ATen/core/Tensor.h>
#include <functional>

namespace kiln::optim {

class ListCall {
 public:
  explicit ListCall(const char* name) : name(name) {}

  /// Whether Kiln's kernels shall take tensors of this device, as kiln::enable() says; not, once
  /// there turned out to be none.
  bool takes(at::Device device);

  /// What a text is run on: tensors of each list of it, and where its numbers go.
  struct Lists {
    std::vector<std::vector<at::Tensor>> inputs, outputs;
    std::vector<at::Tensor> numbers{};
  };
  /// `write` makes the program's text, which is the same for all lists of the same dtypes. False,
  /// after a line in the log: there is no kernel, now or later.
  bool run(const Lists& lists, at::Device device, const std::function<std::string()>& write);

  std::size_t launches = 0; // of the last call; 0: there was none

 private:
  struct Plan {
    Plan(runtime::Backend& backend, at::Device device) : device(device), table(backend, device) {}
    const at::Device device;
    std::vector<std::int64_t> forms; // of its lists
    std::shared_ptr<const ListProgram> program;
    ListTable table;
    at::Tensor workspace;
    bool isCaptured = false; // then a graph uses it
  };
  void prepare(const std::string& text, at::Device device);
  void locate(const Lists& lists);

  const char* name;
  bool failed = false;
  std::vector<std::int64_t> forms; // of the lists of this call
  std::vector<const void*> pointers;
  std::unique_ptr<Plan> plan;
  std::vector<std::unique_ptr<Plan>> kept; // for graphs
};

} // namespace kiln::optim
