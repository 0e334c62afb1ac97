// What is called when a leaf's gradient has been added up, for as long as this lives.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

namespace kiln::dist {

class Hooks {
 public:
  /// arrived(i) behind each backward's gradient of leaves[i]; what was called before still is.
  Hooks(std::vector<at::Tensor> leaves, std::function<void(std::size_t)> arrived);
  ~Hooks();
  Hooks(const Hooks&) = delete;
  Hooks& operator=(const Hooks&) = delete;

  using Arrived = std::function<void(std::size_t)>;

 private:
  std::vector<at::Tensor> leaves;
  std::shared_ptr<Arrived> arrived; // gone: nobody listens any more
};

/// Once, when the backward that runs has ended.
void atEndOfBackward(std::function<void()> work);
/// Autograd's number of the backward that runs, -1 outside of one.
int currentBackward();

} // namespace kiln::dist
