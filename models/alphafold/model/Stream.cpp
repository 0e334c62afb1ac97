// See Stream.h.
#include "models/alphafold/model/Stream.h"

#include "kiln/fuse.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;

namespace {

/// Which operands an update has.
struct Form {
  bool isGated, isScaled, isNormed;
};

/// Of stream, values, bias, gate and its bias, scale, and the norm's weight and bias, as far as
/// they are there.
std::vector<Expr> sumOf(const void* of, const std::vector<Expr>& operands) {
  const Form& form = *static_cast<const Form*>(of);
  auto next = operands.begin();
  const Expr stream = *next++, values = *next++, bias = *next++;
  Expr update = values + bias;
  if (form.isGated) {
    const Expr gate = *next++, gateBias = *next++;
    update = sigmoid(gate + gateBias) * update;
  }
  if (form.isScaled)
    update = *next++ * update;
  if (!form.isNormed)
    return {stream + update};
  const Expr sum = (stream + update).rounded(), weight = *next++;
  return {sum, layerNorm(sum, weight, *next, LayerNormImpl::eps)};
}

const FusedFunction& functionOf(const Form& form) {
  constexpr unsigned always = 3; // operands
  static const auto functions = [] {
    std::vector<FusedFunction> all;
    for (unsigned i = 0; i < 8; ++i) {
      const Form one = {(i & 1) != 0, (i & 2) != 0, (i & 4) != 0};
      const std::string name = std::string("add") + (one.isGated ? "_gated" : "") +
                               (one.isScaled ? "_scaled" : "") + (one.isNormed ? "_normed" : "");
      all.emplace_back(always + 2 * one.isGated + one.isScaled + 2 * one.isNormed, &sumOf, &one,
                       FuseOptions{.name = name});
    }
    return all;
  }();
  return functions[std::size_t(form.isGated + 2 * form.isScaled + 4 * form.isNormed)];
}

std::vector<Tensor> call(const Tensor& stream, const Update& update, const LayerNorm& norm) {
  const Form form = {update.gate.defined(), update.scale.defined(), bool(norm)};
  std::vector<const Tensor*> operands = {&stream, &update.values, &update.bias};
  if (form.isGated)
    operands.insert(operands.end(), {&update.gate, &update.gateBias});
  if (form.isScaled)
    operands.push_back(&update.scale);
  if (form.isNormed)
    operands.insert(operands.end(), {&norm->weight, &norm->bias});
  std::vector<Tensor> made = functionOf(form).call(operands);
  made[0] = made[0].to(stream.scalar_type());
  return made;
}

} // namespace

Tensor Update::alone() const {
  Tensor update = values + bias.to(values.scalar_type());
  if (gate.defined())
    update = at::sigmoid(gate + gateBias.to(gate.scalar_type())) * update;
  return scale.defined() ? scale * update : update;
}

Tensor added(const Tensor& stream, const Update& update) {
  return call(stream, update, nullptr)[0];
}

Renewed added(const Tensor& stream, const Update& update, const LayerNorm& norm) {
  const std::vector<Tensor> made = call(stream, update, norm);
  return {made[0], made[1]};
}

} // namespace kiln::alphafold
