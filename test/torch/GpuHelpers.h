// What tests on a GPU share: they skip by name without one, and compare with fp64 and with ATen.
#pragma once

#include "test/torch/Helpers.h"

#include <functional>
#include <torch/csrc/autograd/autograd.h>
#include <vector>

namespace kiln::test {

class TorchGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA())
      GTEST_SKIP() << "this LibTorch sees no GPU";
    enable(strict());
  }
  void TearDown() override { disable(); }

  static Options strict() {
    Options options;
    options.strict = true;
    return options;
  }
};

using Function = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

/// The result, and the gradients of all inputs.
inline std::vector<at::Tensor> run(const Function& function, const std::vector<at::Tensor>& values,
                                   const at::Tensor& cotangent, at::ScalarType dtype) {
  std::vector<at::Tensor> inputs;
  for (const at::Tensor& value : values)
    inputs.push_back(value.detach().to(dtype).requires_grad_());
  at::Tensor y = function(inputs);
  auto all = torch::autograd::grad({y}, inputs, {cotangent.to(dtype)});
  all.insert(all.begin(), y.detach());
  return all;
}

inline double errorOf(const at::Tensor& result, const at::Tensor& reference) {
  return (result.to(at::kDouble) - reference).abs().max().item<double>();
}

/// One rounding of the dtype at the tensor's largest element: what an error may be anyhow.
inline double roundingOf(const at::Tensor& reference, at::ScalarType dtype) {
  const double unit = dtype == at::kFloat ? 0x1p-22 : dtype == at::kHalf ? 0x1p-11 : 0x1p-8;
  return unit * reference.abs().max().item<double>();
}

} // namespace kiln::test
