// Where routed ops may give other numbers than ATen's, fp64 says who is right: of the CPU and of a
// GPU, whose kernels in ATen round otherwise.
#pragma once

#include "test/torch/AutocastInFp32.h"
#include "test/torch/Helpers.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>

namespace kiln::test {

/// Cases on a device; `options`: with which Kiln is enabled there.
class Numbers {
 public:
  Numbers(at::Device device, Options options) : device(device), options(std::move(options)) {}

  /// The gradient is a difference of rstd and rstd, of which it is exact to a rounding.
  void layerNormsOfACotangentThatIsOneEverywhere() const {
    for (const double deviation : {1.0, 0.02})
      for (const std::int64_t width : {100, 768}) {
        torch::manual_seed(1);
        const Tensor x = draw({32, width}) * deviation;
        const double scale = 1 / std::sqrt(deviation * deviation + 1e-5);
        expectAsExact(layerNorm, {x}, /*ones=*/true, scale, std::to_string(width));
        expectAsExact(layerNorm, {x, draw({width})}, /*ones=*/true, 3 * scale, "with a weight");
      }
  }

  void fp32UnderAutocastStaysFp32() const {
    torch::manual_seed(1);
    const auto under = [type = device.type()](const Function& function) {
      return Function([function, type](const std::vector<Tensor>& in) {
        if (in[0].scalar_type() == at::kDouble)
          return function(in);
        const Autocast on(type);
        return function(in);
      });
    };
    const Tensor x = draw({40, 1000}), w = draw({1000});
    expectAsExact(under(layerNorm), {x, w, w}, false, 0, "layer_norm");
    expectAsExact(under([](const auto& in) { return at::softmax(in[0], 1); }), {x}, false, 0,
                  "softmax");
    expectAsExact(under([](const auto& in) { return at::log_softmax(in[0], 1); }), {x}, false, 0,
                  "log_softmax");
  }

  void softmaxesOfHalfPrecision() const {
    for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat}) {
      torch::manual_seed(1);
      const Tensor x = draw({40, 1000}).to(dtype);
      expectAsExact([](const auto& in) { return at::softmax(in[0], 1); }, {x}, false, 0, "softmax");
      expectAsExact([](const auto& in) { return at::log_softmax(in[0], 1); }, {x}, false, 0,
                    "log_softmax");
    }
  }

  /// Where the mean square is infinite its inverse root is 0: finite elements become 0, infinite
  /// ones NaN.
  void rmsNormOfInfinitiesIsNaNWhereTheseAre() const {
    enable(options);
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf})
      for (const auto weight : {dtype, at::kFloat}) {
        torch::manual_seed(1);
        const Tensor x = draw({6, 40}).to(dtype), w = draw({40}).to(weight);
        x[1][3] = -INFINITY;
        x[2][5] = INFINITY;
        x[3].fill_(-INFINITY);
        x[4][0] = x[4][39] = -INFINITY;
        const Tensor wide = x.to(at::kDouble),
                     exact =
                         wide * (wide.square().mean(1, true) + 1e-5).rsqrt() * w.to(at::kDouble),
                     y = at::rms_norm(x, {40}, w, 1e-5);
        EXPECT_TRUE(at::equal(y.isnan(), x.isinf())) << dtype;
        EXPECT_TRUE(at::equal(y.isnan(), exact.isnan())) << dtype;
        EXPECT_TRUE(at::equal((y == 0).slice(0, 1, 5), (exact == 0).slice(0, 1, 5))) << dtype;
      }
  }

 private:
  using Tensor = at::Tensor;
  using Function = std::function<Tensor(const std::vector<Tensor>&)>;

  static Tensor layerNorm(const std::vector<Tensor>& in) {
    return at::layer_norm(in[0], {in[0].size(1)}, in.size() > 1 ? in[1] : Tensor(),
                          in.size() > 2 ? in[2] : Tensor());
  }
  Tensor draw(at::IntArrayRef sizes) const { return at::randn(sizes).to(device); }

  /// The result and its gradients for a cotangent that grows along the rows, or is one everywhere
  /// and has no strides, as sum() gives it.
  static std::vector<Tensor> run(const Function& function, const std::vector<Tensor>& values,
                                 bool ones) {
    std::vector<Tensor> leaves;
    for (const Tensor& value : values)
      leaves.push_back(value.detach().requires_grad_());
    const Tensor y = function(leaves);
    const Tensor cotangent =
        ones ? at::ones({}, y.options()).expand(y.sizes())
             : at::linspace(-1, 1, y.size(-1), y.options()).expand(y.sizes()).contiguous();
    std::vector<Tensor> all = torch::autograd::grad({y}, leaves, {cotangent});
    all.insert(all.begin(), y.detach());
    return all;
  }

  static double errorOf(const Tensor& a, const Tensor& exact) {
    return (a.to(at::kDouble) - exact).abs().max().item<double>();
  }

  /// Kiln's error is at most twice ATen's, or one rounding of the tensor's largest number (`scale`:
  /// of what it is a difference of).
  void expectAsExact(const Function& function, const std::vector<Tensor>& values, bool ones,
                     double scale, const std::string& what) const {
    disable();
    std::vector<Tensor> wide;
    for (const Tensor& value : values)
      wide.push_back(value.to(at::kDouble));
    const auto exact = run(function, wide, ones), theirs = run(function, values, ones);
    enable(options);
    const auto ours = run(function, values, ones);
    for (std::size_t i = 0; i < ours.size(); ++i) {
      EXPECT_EQ(ours[i].scalar_type(), theirs[i].scalar_type()) << what << " " << i;
      const double largest = std::max(exact[i].abs().max().item<double>(), scale),
                   rounding = ours[i].scalar_type() == at::kHalf       ? 0x1p-11
                              : ours[i].scalar_type() == at::kBFloat16 ? 0x1p-8
                                                                       : 0x1p-23;
      EXPECT_LE(errorOf(ours[i], exact[i]), 2 * errorOf(theirs[i], exact[i]) + rounding * largest)
          << what << ", tensor " << i;
    }
  }

  at::Device device;
  Options options;
};

} // namespace kiln::test
