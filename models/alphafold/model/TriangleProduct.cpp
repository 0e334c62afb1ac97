// See TriangleProduct.h.
#include "models/alphafold/model/TriangleProduct.h"

#include "kiln/fuse.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

namespace kiln::alphafold {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

/// A bias of each channel beside planes of `rank` dimensions.
Tensor ofEachPlane(const Tensor& bias, std::int64_t rank) {
  std::vector<std::int64_t> sizes(std::size_t(rank), 1);
  sizes[0] = bias.size(0);
  return bias.view(sizes);
}

/// [products, R, R], whatever planes they are of.
Tensor batch(const Tensor& planes) {
  return planes.flatten(0, -3);
}

/// A side as the product reads it.
Tensor opened(const Side& side, const Tensor& mask) {
  static const auto plain =
      fuse([](const Expr& values, const Expr& gate, const Expr& bias,
              const Expr& gateBias) { return sigmoid(gate + gateBias) * (values + bias); },
           {.name = "triangle_side"});
  static const auto hidden =
      fuse([](const Expr& values, const Expr& gate, const Expr& bias, const Expr& gateBias,
              const Expr& mask) { return mask * (sigmoid(gate + gateBias) * (values + bias)); },
           {.name = "triangle_side_masked"});
  const std::int64_t rank = side.values.dim();
  const Tensor bias = ofEachPlane(side.bias, rank), gateBias = ofEachPlane(side.gateBias, rank);
  return mask.defined() ? hidden(side.values, side.gate, bias, gateBias, mask)
                        : plain(side.values, side.gate, bias, gateBias);
}

std::array<Expr, 4> gradientsOf(const Expr& gradient, const Expr& values, const Expr& open) {
  const Expr ofValues = gradient * open, ofGate = ofValues * (1 - open) * values;
  return {ofValues, ofGate, sum(ofValues).to(at::kFloat), sum(ofGate).to(at::kFloat)};
}

/// Gradients of values and gate, and the sums of their rows, written to `results`, from that of the
/// opened side.
void close(const Tensor& gradient, const Side& side, const Tensor& mask,
           const std::vector<Tensor>& results) {
  static const auto plain = fuse(
      [](const Expr& gradient, const Expr& values, const Expr& gate, const Expr& bias,
         const Expr& gateBias) {
        return gradientsOf(gradient, values + bias, sigmoid(gate + gateBias));
      },
      {.name = "triangle_side_backward"});
  static const auto hidden = fuse(
      [](const Expr& gradient, const Expr& values, const Expr& gate, const Expr& bias,
         const Expr& gateBias, const Expr& mask) {
        return gradientsOf(mask * gradient, values + bias, sigmoid(gate + gateBias));
      },
      {.name = "triangle_side_masked_backward"});
  const std::int64_t rank = side.values.dim();
  const Tensor bias = ofEachPlane(side.bias, rank), gateBias = ofEachPlane(side.gateBias, rank);
  const Tensor* const operands[] = {&gradient, &side.values, &side.gate, &bias, &gateBias, &mask};
  const auto& function = (mask.defined() ? hidden.untyped() : plain.untyped());
  function.callInto(std::span(operands).first(mask.defined() ? 6 : 5), results);
}

struct TriangleProduct : torch::autograd::Function<TriangleProduct> {
  static Tensor forward(AutogradContext* context, const Tensor& leftValues, const Tensor& leftGate,
                        const Tensor& leftBias, const Tensor& leftGateBias,
                        const Tensor& rightValues, const Tensor& rightGate, const Tensor& rightBias,
                        const Tensor& rightGateBias, const std::optional<Tensor>& given,
                        Sides sides) {
    const Tensor mask = given.value_or(Tensor());
    const Tensor left = opened({leftValues, leftGate, leftBias, leftGateBias}, mask);
    const Tensor right = opened({rightValues, rightGate, rightBias, rightGateBias}, mask);
    context->saved_data["sides"] = std::int64_t(sides);
    context->save_for_backward({left, right, leftValues, leftGate, leftBias, leftGateBias,
                                rightValues, rightGate, rightBias, rightGateBias, mask});
    const Tensor a = batch(left), b = batch(right);
    return (sides == Sides::outgoing ? at::bmm(a, b.transpose(1, 2))
                                     : at::bmm(a.transpose(1, 2), b))
        .view(left.sizes());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    if (!gradients[0].defined())
      return variable_list(10);
    const Tensor left = batch(saved[0]), right = batch(saved[1]), given = batch(gradients[0]);
    const bool isOutgoing = context->saved_data["sides"].toInt() == std::int64_t(Sides::outgoing);
    const Side leftSide = {saved[2], saved[3], saved[4], saved[5]};
    const Side rightSide = {saved[6], saved[7], saved[8], saved[9]};
    const Tensor& mask = saved[10];
    const Tensor ofLeft =
        isOutgoing ? at::bmm(given, right) : at::bmm(right, given.transpose(1, 2));
    const Tensor ofRight = isOutgoing ? at::bmm(given.transpose(1, 2), left) : at::bmm(left, given);
    // Side by side, as the products that made values and gates read them.
    std::vector<std::int64_t> sizes = saved[0].sizes().vec();
    const std::int64_t channels = sizes[0];
    sizes[0] *= 4;
    const std::vector<Tensor> parts = at::empty(sizes, leftSide.values.options()).split(channels);
    sizes.back() = 1;
    const at::ScalarType type = leftSide.bias.scalar_type();
    const Tensor ofRows = at::empty(sizes, leftSide.bias.options());
    const std::vector<Tensor> sums = ofRows.split(channels);
    close(ofLeft.view(saved[0].sizes()), leftSide, mask, {parts[0], parts[1], sums[0], sums[1]});
    close(ofRight.view(saved[0].sizes()), rightSide, mask, {parts[2], parts[3], sums[2], sums[3]});
    const std::vector<Tensor> biases =
        ofRows.flatten(1).sum(1, /*keepdim=*/false, type).split(channels);
    return {parts[0], parts[1],  biases[0], biases[1], parts[2],
            parts[3], biases[2], biases[3], Tensor(),  Tensor()};
  }
};

} // namespace

Tensor triangleProduct(const Side& left, const Side& right, const Tensor& mask, Sides sides) {
  return TriangleProduct::apply(left.values, left.gate, left.bias, left.gateBias, right.values,
                                right.gate, right.bias, right.gateBias,
                                mask.defined() ? std::optional(mask) : std::nullopt, sides);
}

Tensor rowsOf(const Tensor& planes) {
  if (!planes.is_cuda() || !at::isReducedFloatingType(planes.scalar_type()))
    return planes.movedim(0, -1).contiguous();
  // ATen's copy reads single elements from everywhere. A product with the unit matrix moves tiles,
  // both ways, at the speed of memory, and changes no finite number.
  const Tensor unit = at::eye(planes.size(0), planes.options().requires_grad(false));
  return at::mm(planes.flatten(1).t(), unit).view(planes.movedim(0, -1).sizes());
}

} // namespace kiln::alphafold
