// See Space.h.
#include "runtime/fuse/Space.h"

#include "runtime/Table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kiln::fusion {

namespace {

constexpr unsigned dropped = ~0U; // a dimension of size 1 beside others

std::string shapesOf(std::span<const at::Tensor* const> operands) {
  std::string text;
  for (const at::Tensor* operand : operands)
    text += fmt::format("{}[{}]", text.empty() ? "" : ", ", fmt::join(operand->sizes(), ", "));
  return text;
}

/// The size of an operand in a dimension of the common shape; 0 dimensions from the left are -1.
std::int64_t sizeAt(const at::Tensor& operand, std::size_t rank, std::size_t d) {
  const std::size_t missing = rank - static_cast<std::size_t>(operand.dim());
  return d < missing ? -1 : operand.size(static_cast<std::int64_t>(d - missing));
}

} // namespace

Space::Space(std::span<const at::Tensor* const> operands, const std::string& name) {
  std::size_t rank = 1;
  for (const at::Tensor* operand : operands)
    rank = std::max(rank, static_cast<std::size_t>(operand->dim()));
  shape.assign(rank, 1);
  for (const at::Tensor* operand : operands)
    for (std::size_t d = 0; d < rank; ++d) {
      const std::int64_t size = sizeAt(*operand, rank, d);
      if (size < 0 || size == 1 || size == shape[d])
        continue;
      if (shape[d] != 1)
        throw Error(ErrorKind::input,
                    fmt::format("{}: operands of shapes {} do not fit each other: sizes {} and {} "
                                "in dimension {} of {}; they must agree, or one be 1",
                                name, shapesOf(operands), shape[d], size, d, rank));
      shape[d] = size;
    }
  width = shape.back();

  const auto has = [&](const at::Tensor& operand, std::size_t d) {
    return sizeAt(operand, rank, d) == shape[d];
  };
  const bool hasRows = std::any_of(shape.begin(), shape.end() - 1, [](auto n) { return n != 1; });
  groups = 0;
  Mask last = 0; // which operands have the group that is being gathered
  for (std::size_t d = 0; d + 1 < rank; ++d) {
    if (!hasRows) {
      groupOf.push_back(0);
      continue;
    }
    if (shape[d] == 1) {
      groupOf.push_back(dropped);
      continue;
    }
    Mask who = 0;
    for (std::size_t i = 0; i < operands.size(); ++i)
      who |= static_cast<Mask>(has(*operands[i], d)) << i;
    if (groups == 0 || who != last) {
      if (groups == maxGroups)
        throw Error(
            ErrorKind::input,
            fmt::format("{}: operands of shapes {} are broadcast in more than {} ways along "
                        "the leading dimensions; expand some of them",
                        name, shapesOf(operands), maxGroups));
      groupSizes[groups++] = 1;
      last = who;
    }
    groupSizes[groups - 1] *= shape[d];
    groupOf.push_back(groups - 1);
    for (std::size_t i = 0; i < operands.size(); ++i)
      masks[i] |= (who >> i & 1) << (groups - 1);
  }
  if (groups == 0) { // one row
    groups = 1;
    groupSizes[0] = 1;
    for (std::size_t i = 0; i < operands.size(); ++i)
      masks[i] = static_cast<std::size_t>(operands[i]->dim()) == rank ? 1 : 0;
  }
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (has(*operands[i], rank - 1))
      masks[i] |= columns();
}

std::int64_t distanceOfBlocks(const at::Tensor& tensor, std::int64_t rows) {
  if (tensor.dim() < 2 || tensor.stride(-1) != 1)
    return 0;
  const std::int64_t block = rows * tensor.size(-1);
  std::int64_t dense = tensor.size(-1); // elements of a block so far
  std::int64_t distance = 0, expected = 0;
  for (std::int64_t d = tensor.dim() - 2; d >= 0; --d) {
    if (tensor.size(d) == 1)
      continue;
    if (dense < block) {
      if (tensor.stride(d) != dense)
        return 0;
      dense *= tensor.size(d);
      continue;
    }
    if (distance == 0)
      distance = expected = tensor.stride(d);
    if (tensor.stride(d) != expected || expected == 0)
      return 0;
    expected *= tensor.size(d);
  }
  constexpr std::int64_t vector = 16;
  const bool isAligned = distance * tensor.element_size() % vector == 0 &&
                         reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % vector == 0;
  return isAligned && dense == block && distance >= block ? distance : 0;
}

void Space::findBlocksApart(std::span<const at::Tensor* const> operands,
                            std::span<const at::Tensor> results) {
  if (groups > 2)
    return;
  const auto isApart = [&](const at::Tensor& tensor) -> std::uint32_t {
    if (tensor.is_contiguous())
      return 0;
    const std::int64_t distance = distanceOfBlocks(tensor, rowsOfBlock());
    if (apart == 0)
      apart = distance;
    return static_cast<std::uint32_t>(distance != 0 && distance == apart);
  };
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (masks[i] == full())
      operandsApart |= isApart(*operands[i]) << i;
  for (std::size_t i = 0; i < results.size(); ++i)
    resultsApart |= isApart(results[i]) << i;
}

void Space::takeUsualRows(std::size_t operands) {
  constexpr std::int64_t usual = 1024;
  const std::int64_t elements = rows() * width;
  const bool isPlain = std::all_of(masks.begin(), masks.begin() + operands,
                                   [&](Mask mask) { return mask == 0 || mask == full(); });
  if (!isPlain || apart != 0 || elements % usual != 0)
    return;
  groups = 1;
  groupSizes[0] = elements / usual;
  width = usual;
  for (std::size_t i = 0; i < operands; ++i)
    masks[i] = masks[i] != 0 ? full() : 0;
  std::fill(groupOf.begin(), groupOf.end(), 0);
}

at::DimVector Space::sizesOf(Mask mask) const {
  at::DimVector sizes(shape);
  for (std::size_t d = 0; d < groupOf.size(); ++d)
    if (groupOf[d] != dropped && (mask >> groupOf[d] & 1) == 0)
      sizes[d] = 1;
  if ((mask & columns()) == 0)
    sizes.back() = 1;
  return sizes;
}

std::int64_t Space::rows() const {
  std::int64_t product = 1;
  for (unsigned i = 0; i < groups; ++i)
    product *= groupSizes[i];
  return product;
}

std::uint64_t Signature::hash() const {
  return runtime::hashOf(words);
}

bool Kind::sumsInnerGroup() const {
  const Mask inner = Mask(1) << (groups - 1), summed = inner | columns();
  return std::any_of(operands.begin(), operands.end(), [&](const OperandKind& one) {
    return one.wantsGradient && (one.mask & summed) == 0 && one.mask != 0;
  });
}

Signature Kind::signature() const {
  Signature signature;
  signature.words[0] = static_cast<std::uint64_t>(width) | std::uint64_t(innerRows) << 32U;
  signature.words[1] = groups | std::uint64_t(device) << 8U |
                       static_cast<std::uint64_t>(place) << 16U | std::uint64_t(rowClass) << 32U;
  signature.words[2] = static_cast<std::uint64_t>(apart) | std::uint64_t(resultsApart) << 40U;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const OperandKind& one = operands[i];
    const std::uint64_t bits = static_cast<std::uint64_t>(one.dtype) |
                               static_cast<std::uint64_t>(one.wantsGradient) << 4U |
                               std::uint64_t(one.mask) << 5U |
                               static_cast<std::uint64_t>(one.isApart) << 15U;
    signature.words[Signature::first + i / Signature::perWord] |= bits
                                                                  << (i % Signature::perWord * 16);
  }
  return signature;
}

} // namespace kiln::fusion
