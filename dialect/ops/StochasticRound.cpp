// kiln.stochastic_round: verifier, fp64 reference, gradient, decomposition.
#include "dialect/Kiln.h"
#include "dialect/Random.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <bit>
#include <cmath>
#include <limits>

using namespace mlir;
using namespace kiln::ir;

static constexpr uint32_t kDropped = 0xffff; // bits of fp32 that bf16 does not have

void StochasticRoundOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getOutput(), "y");
}

LogicalResult StochasticRoundOp::verify() {
  if (failed(verifyRow(*this, getInput())))
    return failure();
  return verifyShape(*this, "output", getOutput(), tensorType(getInput()).getShape(), "the input");
}

void StochasticRoundOp::reference(ArrayRef<const Tensor64*> inputs,
                                  MutableArrayRef<Tensor64> results) {
  const Tensor64& x = *inputs[0];
  RandomNumbers random(*inputs[1], *inputs[2]);
  Tensor64& y = results[0] = makeTensor64(x.shape);
  for (int64_t i = 0; i < x.size(); ++i) {
    auto value = static_cast<float>(x.data[i]);
    uint32_t bits = std::bit_cast<uint32_t>(value) + (random.word(i) & kDropped);
    y.data[i] = std::isfinite(value) ? std::bit_cast<float>(bits & ~kDropped) : value;
  }
}

LogicalResult StochasticRoundOp::gradient(Gradient& gradient) {
  if (Value dy = gradient.of(getOutput()))
    gradient.add(getInput(), dy);
  return success();
}

/// In integers, so that a carry goes into the exponent; only what is finite is rounded.
SmallVector<Value> StochasticRoundOp::decompose(MathBuilder& math) {
  OpBuilder& builder = math.builder;
  Value x = getInput();
  auto floats = tensorType(x), integers = floats.clone(builder.getI32Type());
  Value like = floats.hasStaticShape() ? Value() : x;
  Value bits = builder.create<arith::BitcastOp>(math.location, integers, x);
  Value random = builder.create<RandomOp>(math.location, integers, getSeed(), getOffset(), like);
  Value added =
      builder.create<arith::AndIOp>(math.location, random, math.integer(kDropped, random));
  Value sum = builder.create<arith::AddIOp>(math.location, bits, added);
  Value kept =
      builder.create<arith::AndIOp>(math.location, sum, math.integer(~int64_t{kDropped}, sum));
  Value rounded = builder.create<arith::BitcastOp>(math.location, floats, kept);
  Value size = builder.create<math::AbsFOp>(math.location, x);
  Value finite = math.greater(math.constant(std::numeric_limits<double>::infinity(), x), size);
  return {math.cast(math.select(finite, rounded, x), builder.getBF16Type())};
}
