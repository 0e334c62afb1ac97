// See Hooks.h.
#include "runtime/dist/Hooks.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

namespace kiln::dist {

namespace {

/// A tensor has one of these: what was there before is called first.
struct Hook : torch::autograd::PostAccumulateGradHook {
  Hook(std::weak_ptr<Hooks::Arrived> to, std::size_t index,
       std::unique_ptr<PostAccumulateGradHook> before)
      : to(std::move(to)), index(index), before(std::move(before)) {}

  void operator()(const at::Tensor& leaf) override {
    if (before)
      (*before)(leaf);
    if (const auto arrived = to.lock())
      (*arrived)(index);
  }

  std::weak_ptr<Hooks::Arrived> to;
  std::size_t index;
  std::unique_ptr<PostAccumulateGradHook> before;
};

} // namespace

Hooks::Hooks(std::vector<at::Tensor> tensors, std::function<void(std::size_t)> call)
    : leaves(std::move(tensors)), arrived(std::make_shared<Arrived>(std::move(call))) {
  using namespace torch::autograd;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    auto& there = impl::post_acc_grad_hooks(leaves[i]);
    impl::set_post_acc_grad_hooks(leaves[i], std::make_unique<Hook>(arrived, i, std::move(there)));
  }
}

Hooks::~Hooks() {
  for (const at::Tensor& leaf : leaves) {
    auto& there = torch::autograd::impl::post_acc_grad_hooks(leaf);
    if (auto* hook = dynamic_cast<Hook*>(there.get()); hook && hook->to.lock() == arrived)
      there = std::move(hook->before);
  }
}

void atEndOfBackward(std::function<void()> work) {
  torch::autograd::Engine::get_default_engine().queue_callback(std::move(work));
}

int currentBackward() {
  return torch::autograd::get_current_graph_task_id();
}

} // namespace kiln::dist
