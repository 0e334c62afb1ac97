// What has been found to be attention, as a step of a program.
#include "runtime/compile/Attention.h"

#include "kiln/torch.h"
#include "runtime/Autocast.h"
#include "runtime/ops/Attend.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>
#include <fmt/format.h>

namespace kiln::compiled {

namespace {

using at::Tensor;

/// [..., rows, width]: broadcast to the first leading dimensions, then with the second in place of
/// them.
Tensor shaped(const Tensor& tensor, at::IntArrayRef broadcast, at::IntArrayRef leading) {
  const auto own = tensor.sizes().slice(static_cast<std::size_t>(tensor.dim()) - 2);
  const auto with = [&](at::IntArrayRef outer) {
    at::DimVector sizes(outer);
    sizes.append(own.begin(), own.end());
    return sizes;
  };
  const Tensor all =
      tensor.sizes() == at::IntArrayRef(with(broadcast)) ? tensor : tensor.expand(with(broadcast));
  return broadcast == leading ? all : all.reshape(with(leading));
}

/// Where all keys are hidden by a number, all have the same probability. Attention gives zeros
/// there.
Tensor withUniformRows(const Tensor& output, const runtime::AttentionTensors& all) {
  const Tensor isHidden = all.mask.any(-1, /*keepdim=*/true).logical_not();
  return at::where(isHidden, all.value.mean(-2, /*keepdim=*/true), output);
}

} // namespace

std::vector<Slot> Attention::inputs() const {
  std::vector<Slot> slots{query.slot, key.slot, value.slot};
  for (const Added& bias : biases)
    slots.push_back(bias.slot);
  for (const Mask& mask : masks)
    slots.push_back(mask.slot);
  return slots;
}

std::string Attention::text(const Tape& tape) const {
  std::string list = "attention:";
  for (unsigned i : ops)
    list += fmt::format("{}{}", i == ops[0] ? " " : ", ", tape.ops[i].shortName());
  return list;
}

std::int64_t Attention::bytesSaved(const Tape& tape) const {
  std::int64_t bytes = 0;
  for (unsigned i : ops)
    if (tape.ops[i].result() != result)
      bytes += 2 * tape.value(tape.ops[i].result()).bytes(); // written and read
  return bytes;
}

Tensor Attention::run(const Tape& tape, const std::function<Tensor(Slot)>& valueOf) const {
  const at::IntArrayRef outer(scores.data(), scores.size() - 2);
  const auto rows = [&](const Ordered& one, at::IntArrayRef product) {
    return runtime::asProductsRead(shaped(one.of(valueOf(one.slot)), product, outer));
  };
  runtime::AttentionTensors all{
      rows(query, leading), rows(key, leading), rows(value, valueLeading), {}, {}};
  for (const Added& added : biases) {
    const Tensor bias = valueOf(added.slot);
    const Tensor scaled = added.factor == 1 ? bias : bias * added.factor;
    all.bias = all.bias.defined() ? all.bias + scaled : scaled;
  }
  for (const Mask& one : masks) {
    const Tensor mask = valueOf(one.slot), seen = one.isSeen ? mask : mask.logical_not();
    all.mask = all.mask.defined() ? all.mask.logical_and(seen) : seen;
  }
  const runtime::AttentionForm form{p, false, scale, false};
  const Value& wanted = tape.value(result);
  if (const runtime::Reason why = runtime::whyNotAttention(all, form))
    throw Error(ErrorKind::input, why);
  if (all.query.scalar_type() != wanted.dtype)
    throw Error(ErrorKind::input,
                fmt::format("its result is {}, its query {}", c10::toString(wanted.dtype),
                            c10::toString(all.query.scalar_type())));
  Tensor output = runtime::attend(all, form);
  if (fill)
    output = withUniformRows(output, all);
  output = shaped(output, outer, valueLeading);
  if (!order.empty())
    output = output.permute(order);
  return isAnyLayout || !wanted.isContiguous ? output : output.contiguous();
}

} // namespace kiln::compiled
