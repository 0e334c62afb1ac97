// See Variant.h.
#include "runtime/fuse/Variant.h"

#include "runtime/Call.h"
#include "runtime/Compiler.h"
#include "runtime/fuse/Writer.h"

#include <charconv>
#include <fmt/format.h>

namespace kiln::fusion {

namespace {

/// Bits of the operands whose gradients are wanted.
std::uint32_t wantedBits(const Kind& kind) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < kind.operands.size(); ++i)
    bits |= static_cast<std::uint32_t>(kind.operands[i].wantsGradient) << i;
  return bits;
}

/// The number behind a prefix: 3 of "out3" for "out".
std::optional<unsigned> numberBehind(std::string_view prefix, std::string_view name) {
  unsigned number = 0;
  if (!name.starts_with(prefix))
    return std::nullopt;
  name.remove_prefix(prefix.size());
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() ? std::optional(number)
                                                                  : std::nullopt;
}

/// The groups that a mask has, and ~0 for columns, in the order of dimensions.
at::SmallVector<unsigned, 8> dimensionsOf(Mask mask, unsigned groups) {
  at::SmallVector<unsigned, 8> dims;
  for (unsigned i = 0; i <= groups; ++i)
    if ((mask >> i & 1) != 0)
      dims.push_back(i == groups ? ~0U : i);
  return dims;
}

constexpr unsigned unknown = ~0U;

} // namespace

static at::ScalarType commonType(const Kind& kind) {
  std::optional<at::ScalarType> common;
  for (bool isFull : {true, false}) {
    for (const OperandKind& one : kind.operands) {
      const bool isNumber =
          one.dtype == DType::f32 || one.dtype == DType::bf16 || one.dtype == DType::f16;
      if (!isNumber || (isFull && one.mask != kind.full()))
        continue;
      const auto type = runtime::scalarTypeOf(one.dtype);
      common = common ? c10::promoteTypes(*common, type) : type;
    }
    if (common)
      break;
  }
  return common.value_or(at::kFloat);
}

std::vector<at::ScalarType> resultTypes(const Graph& graph, const Kind& kind) {
  std::vector<at::ScalarType> types;
  for (unsigned i = 0; i < graph.results.size(); ++i)
    types.push_back(graph.fixedType(i).value_or(
        isColumnSums(*graph.steps[graph.results[i]].node) ? at::kFloat : commonType(kind)));
  return types;
}

Variant::Variant(const Graph& graph, const Kind& kind, const std::string& name,
                 runtime::Backend& backend, const Space& space)
    : key(kind.signature()), graph(graph), kind(kind),
      label(fmt::format("{} {}x{} {}", name, space.rows(), kind.width,
                        kiln::name(kind.operands[0].dtype))),
      first(space), dtypes(resultTypes(graph, kind)),
      forward(*this, backend, static_cast<int>(kind.device), false),
      backward(*this, backend, static_cast<int>(kind.device), true) {
  const Writer writer(graph, kind, name, commonType(kind), dtypes);
  masks = writer.resultMasks;
  module = writer.text;
  forwardName = name;
  bool any = false;
  for (unsigned result : graph.results) {
    isDifferentiable.push_back((graph.steps[result].depends & wantedBits(kind)) != 0);
    any |= isDifferentiable.back();
  }
  if (any) {
    const Derivative derivative =
        differentiate(Module::parse(module, name), {}, /*readAhead=*/false);
    module = derivative.module.text();
    forwardName = derivative.forward;
    backwardName = derivative.backward;
    gradients = derivative.gradients;
    gradients.resize(graph.operands);
  }
  enqueue(forward);
  if (hasBackward())
    enqueue(backward);
}

runtime::OrderText Part::text() const {
  return {variant.module, isBackward ? variant.backwardName : variant.forwardName, false,
          variant.label + (isBackward ? " backward" : ""), runTimeSizes()};
}

/// Which symbols several groups have, the launch plan tells. None: whoever compiles says why not.
std::vector<std::int64_t> Part::runTimeSizes() const try {
  if (variant.kind.groups == 1)
    return {variant.first.rows()};
  if (isBackward && !variant.forward.kernel.load(std::memory_order_acquire))
    return {}; // what it saves is not known
  CompileOptions options;
  options.function = isBackward ? variant.backwardName : variant.forwardName;
  options.until = Stage::cuda;
  const Program program = Program::compile(Module::parse(variant.module, variant.label), options);
  std::vector<std::int64_t> sizes;
  for (const unsigned group : rolesOf(program.inputs(), program.outputs()).groupOf) {
    if (group == unknown)
      return {};
    sizes.push_back(variant.first.groupSizes[group]);
  }
  return sizes;
} catch (const Error&) {
  return {};
}

Binding Part::bindingOf(std::string_view name, unsigned& nextSaved) const {
  using Is = Binding::Is;
  if (name == "seed")
    return {Is::seed, 0};
  if (auto i = numberBehind("offset", name))
    return {Is::seed, *i + 1};
  if (auto i = numberBehind("in", name))
    return {Is::operand, *i};
  if (auto i = numberBehind("out", name))
    return {Is::result, *i};
  if (auto i = numberBehind("dout", name))
    return {Is::given, *i};
  return {Is::saved, nextSaved++};
}

Mask Part::maskOf(const Binding& binding) const {
  return binding.is == Binding::Is::operand ? variant.kind.operands[binding.index].mask
                                            : variant.masks[binding.index];
}

/// From the tensors whose groups are known.
Part::Roles Part::rolesOf(std::span<const TensorInfo> inputs,
                          std::span<const TensorInfo> outputs) const {
  unsigned nextSaved = 0;
  Roles roles;
  const auto learn = [&](int symbol, unsigned group) {
    const auto at = static_cast<std::size_t>(symbol);
    roles.groupOf.resize(std::max(roles.groupOf.size(), at + 1), unknown);
    roles.groupOf[at] = group;
  };
  const auto learnFrom = [&](const TensorInfo& tensor, Mask mask) {
    const auto dims = dimensionsOf(mask, variant.kind.groups);
    for (std::size_t d = 0; d < tensor.shape.size(); ++d)
      if (!tensor.shape[d].isStatic())
        learn(tensor.shape[d].symbol, dims[d]);
  };
  for (const TensorInfo& tensor : inputs) {
    const Binding& binding = roles.bindings.emplace_back(bindingOf(tensor.name, nextSaved));
    if (binding.is == Binding::Is::saved) {
      const Saved& saved = variant.saved.at(binding.index);
      for (std::size_t d = 0; d < tensor.shape.size(); ++d)
        if (!tensor.shape[d].isStatic())
          learn(tensor.shape[d].symbol, static_cast<unsigned>(-1 - saved.sizes[d]));
    } else if (binding.is != Binding::Is::seed) {
      learnFrom(tensor, maskOf(binding));
    }
  }
  for (std::size_t i = 0; !isBackward && i < variant.masks.size(); ++i)
    learnFrom(outputs[i], variant.masks[i]);
  return roles;
}

void Part::accept(const runtime::Kernel& made) {
  Roles roles = rolesOf(made.inputs, made.outputs);
  bindings = std::move(roles.bindings);
  groupOf = std::move(roles.groupOf);
  if (isBackward)
    return;
  for (std::size_t i = variant.masks.size(); i < made.outputs.size(); ++i) {
    const TensorInfo& tensor = made.outputs[i];
    Saved& saved = variant.saved.emplace_back(Saved{tensor.dtype, {}});
    for (const Extent& extent : tensor.shape)
      saved.sizes.push_back(extent.isStatic() ? extent.size
                                              : -1 - static_cast<std::int64_t>(groupOf.at(
                                                         static_cast<std::size_t>(extent.symbol))));
  }
}

void Part::launch(const Space& space, std::span<void* const> pointers) const {
  std::array<std::int64_t, maxGroups> sizes{};
  for (std::size_t i = 0; i < groupOf.size(); ++i)
    sizes[i] = space.groupSizes[groupOf[i]];
  kernel.load(std::memory_order_acquire)->launch(std::span(sizes.data(), groupOf.size()), pointers);
}

} // namespace kiln::fusion
