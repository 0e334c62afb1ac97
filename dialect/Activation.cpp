// See Activation.h.
#include "dialect/Activation.h"

#include <cmath>
#include <numbers>

using namespace mlir;

namespace kiln::ir {

// gelu(x) = x (1 + tanh(kTanhScale (x + kCubic x^3))) / 2 is within 5e-4 of the exact one.
static constexpr double kTanhScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
static constexpr double kCubic = 0.044715;
static constexpr double kHalfRoot = std::numbers::sqrt2 / 2;

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}
double silu(double x) {
  return x / (1.0 + std::exp(-x));
}
double gelu(double x, Approximate approximate) {
  if (approximate == Approximate::none)
    return x * 0.5 * (1.0 + std::erf(x * kHalfRoot));
  return x * 0.5 * (1.0 + std::tanh(kTanhScale * (x + kCubic * x * x * x)));
}

Tensor64 mapElements(const Tensor64& x, llvm::function_ref<double(double)> function) {
  Tensor64 y = makeTensor64(x.shape);
  llvm::transform(x.data, y.data.begin(), function);
  return y;
}

// Where exp(-x) overflows, all of these are 0 as they should be.
static Value sigmoidExp(MathBuilder& math, Value x) {
  return math.exp(math.neg(x));
}
Value sigmoid(MathBuilder& math, Value x) {
  return math.div(math.constant(1.0, x), math.add(sigmoidExp(math, x), 1.0));
}
/// 1 - s with s = sigmoid(x), without cancellation where s is near 1: there it is exp(-x) s.
static Value sigmoidRest(MathBuilder& math, Value x) {
  Value s = sigmoid(math, x);
  Value positive = math.greater(x, math.constant(0.0, x));
  Value small = math.mul(sigmoidExp(math, x), s);
  Value plain = math.sub(math.constant(1.0, x), s);
  return math.select(positive, small, plain);
}
Value sigmoidSlope(MathBuilder& math, Value x) {
  Value s = sigmoid(math, x);
  return math.mul(s, sigmoidRest(math, x));
}
Value silu(MathBuilder& math, Value x) {
  return math.div(x, math.add(sigmoidExp(math, x), 1.0));
}
/// s (1 + x (1 - s))
Value siluSlope(MathBuilder& math, Value x) {
  Value s = sigmoid(math, x);
  Value bend = math.mul(x, sigmoidRest(math, x));
  return math.mul(s, math.add(bend, 1.0));
}

/// tanh(kTanhScale (x + kCubic x^3))
static Value tanhOfCubic(MathBuilder& math, Value x) {
  Value cube = math.mul(math.mul(x, x), x);
  return math.tanh(math.mul(math.add(x, math.mul(cube, kCubic)), kTanhScale));
}
/// What gelu multiplies x by.
static Value geluFactor(MathBuilder& math, Value x, Approximate approximate) {
  Value level =
      approximate == Approximate::none ? math.erf(math.mul(x, kHalfRoot)) : tanhOfCubic(math, x);
  return math.mul(math.add(level, 1.0), 0.5);
}
Value gelu(MathBuilder& math, Value x, Approximate approximate) {
  return math.mul(x, geluFactor(math, x, approximate));
}
Value geluSlope(MathBuilder& math, Value x, Approximate approximate) {
  Value factor = geluFactor(math, x, approximate);
  if (approximate == Approximate::none) {
    Value bell = math.exp(math.mul(math.mul(x, x), -0.5));
    return math.add(factor, math.mul(x, math.mul(bell, kTanhScale / 2)));
  }
  // x (1 - t^2) (1 + 3 kCubic x^2), with the vanishing factor before each x: x^2 may overflow.
  Value t = tanhOfCubic(math, x);
  Value rest = math.mul(math.sub(math.constant(1.0, t), math.mul(t, t)), x);
  Value bend = math.add(rest, math.mul(math.mul(math.mul(rest, x), x), 3.0 * kCubic));
  return math.add(factor, math.mul(bend, kTanhScale / 2));
}

} // namespace kiln::ir
