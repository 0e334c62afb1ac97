// Modules that ranks train in tests, and what one process makes of all ranks' batches.
// ToyModel and its tied sister are those of CS336's second assignment.
#pragma once

#include "kiln/dist/data_parallel.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace kiln::dist {

inline torch::nn::Linear linear(std::int64_t in, std::int64_t out, bool bias = false) {
  return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(bias));
}

struct Fc2Impl : torch::nn::Module {
  Fc2Impl() {
    fc = register_module("fc", linear(10, 50, true));
    fc->bias.requires_grad_(false);
  }
  at::Tensor forward(const at::Tensor& x) { return fc(x); }
  torch::nn::Linear fc{nullptr};
};
TORCH_MODULE(Fc2);

/// With a frozen bias within a nested module and a frozen parameter of nobody's.
struct ToyModel : torch::nn::Module {
  ToyModel() {
    fc1 = register_module("fc1", linear(10, 10));
    fc2 = register_module("fc2", Fc2());
    fc3 = register_module("fc3", linear(50, 5));
    frozen = register_parameter("no_grad_fixed_param", torch::tensor({2.0f, 2.0f}), false);
  }
  virtual at::Tensor forward(const at::Tensor& x) { return fc3(fc2(fc1(x).relu()).relu()); }
  torch::nn::Linear fc1{nullptr}, fc3{nullptr};
  Fc2 fc2{nullptr};
  at::Tensor frozen;
};

/// fc4 multiplies with fc2's weight; its own, which stays registered, is used by nobody.
struct TiedToyModel : torch::nn::Module {
  TiedToyModel() {
    fc1 = register_module("fc1", linear(10, 10));
    fc2 = register_module("fc2", linear(10, 50));
    fc3 = register_module("fc3", linear(50, 10));
    fc4 = register_module("fc4", linear(10, 50));
    fc5 = register_module("fc5", linear(50, 5));
    fc4->weight = fc4->register_parameter("tied", fc2->weight);
  }
  at::Tensor forward(const at::Tensor& x) {
    return fc5(fc4(fc3(fc2(fc1(x).relu()).relu()).relu()).relu());
  }
  torch::nn::Linear fc1{nullptr}, fc2{nullptr}, fc3{nullptr}, fc4{nullptr}, fc5{nullptr};
};

/// Parameters once each, tied ones by their first name.
inline std::vector<NamedParameter> namedParameters(const torch::nn::Module& module) {
  std::vector<NamedParameter> all;
  for (const auto& one : module.named_parameters())
    if (std::none_of(all.begin(), all.end(),
                     [&](const auto& known) { return known.tensor.is_same(one.value()); }))
      all.push_back({one.key(), one.value()});
  return all;
}

inline std::vector<at::Tensor> trainable(const torch::nn::Module& module) {
  std::vector<at::Tensor> all;
  for (const auto& one : namedParameters(module))
    if (one.tensor.requires_grad())
      all.push_back(one.tensor);
  return all;
}

inline void expectEqual(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].defined(), b[i].defined()) << i;
    if (a[i].defined()) {
      EXPECT_TRUE(at::equal(a[i], b[i])) << i << ": " << (a[i] - b[i]).abs().max();
    }
  }
}

} // namespace kiln::dist
