// kiln::fuse on tensors of the CPU, whose kernels the host target executes: results and gradients
// beside ATen's formulas in fp64, broadcasts, dropout, what is refused and what ATen computes.
#include "test/torch/Helpers.h"

#include <kiln/fuse.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;
using Sizes = std::vector<std::int64_t>;

FuseOptions onHost(const std::string& name) {
  return {.name = name, .place = Place::cpu};
}

/// Results, then gradients of the operands for fixed cotangents.
Tensors run(const Function& function, const Tensors& values) {
  Tensors inputs;
  for (const Tensor& value : values)
    inputs.push_back(value.is_floating_point() ? value.detach().requires_grad_() : value);
  Tensors results = function(inputs), roots, cotangents, leaves;
  for (const Tensor& result : results)
    if (result.requires_grad()) {
      roots.push_back(result);
      cotangents.push_back(at::linspace(-1, 1.5, result.numel())
                               .view(result.sizes())
                               .to(result.scalar_type()));
    }
  for (const Tensor& input : inputs)
    if (input.requires_grad())
      leaves.push_back(input);
  const auto gradients = torch::autograd::grad(roots, leaves, cotangents);
  for (Tensor& result : results)
    result = result.detach();
  results.insert(results.end(), gradients.begin(), gradients.end());
  return results;
}

/// Of a tensor's largest element: a few roundings of the dtype.
double allowed(at::ScalarType type) {
  return type == at::kFloat ? 2e-5 : type == at::kHalf ? 4e-3 : 3e-2;
}

struct Case {
  const char* name;
  Function fused, formula;
  std::vector<Sizes> shapes;
};

std::ostream& operator<<(std::ostream& stream, const Case& one) {
  return stream << one.name;
}

Function of(const auto& fused) {
  return [fused](const Tensors& t) {
    const auto list = [](const auto& result) {
      if constexpr (std::is_same_v<std::decay_t<decltype(result)>, Tensor>)
        return Tensors{result};
      else
        return Tensors(result.begin(), result.end());
    };
    if constexpr (requires { fused(t[0]); })
      return list(fused(t[0]));
    else if constexpr (requires { fused(t[0], t[1]); })
      return list(fused(t[0], t[1]));
    else
      return list(fused(t[0], t[1], t[2]));
  };
}

std::vector<Case> cases() {
  return {
      {"gate", of(fuse([](Expr x, Expr g, Expr b) { return x * sigmoid(g + b); }, onHost("gate"))),
       [](const Tensors& t) { return Tensors{t[0] * at::sigmoid(t[1] + t[2])}; },
       {{6, 40}, {6, 40}, {40}}},
  };
}

class Fuse : public testing::TestWithParam<std::tuple<Case, at::ScalarType>> {};

TEST_P(Fuse, AgreesWithFormulasInFp64) {
  const auto& [one, dtype] = GetParam();
  at::manual_seed(1);
  Tensors values, exact;
  for (const Sizes& shape : one.shapes) {
    values.push_back(at::randn(shape).to(dtype));
    exact.push_back(values.back().to(at::kDouble));
  }
  const Tensors ours = run(one.fused, values), theirs = run(one.formula, exact),
                again = run(one.fused, values);
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i].scalar_type(), dtype);
    ASSERT_EQ(ours[i].sizes(), theirs[i].sizes()) << i;
    const double error = (ours[i].to(at::kDouble) - theirs[i]).abs().max().item<double>();
    EXPECT_LE(error, allowed(dtype) * (1 + theirs[i].abs().max().item<double>())) << i;
    EXPECT_TRUE(at::equal(ours[i], again[i])) << "not repeatable: " << i;
  }
  EXPECT_GE(callsByKiln(one.name), 2U) << report();
}

INSTANTIATE_TEST_SUITE_P(Torch, Fuse,
                         testing::Combine(testing::ValuesIn(cases()),
                                          testing::Values(at::kFloat, at::kBFloat16, at::kHalf)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" +
                                  c10::toString(std::get<1>(info.param));
                         });

} // namespace
