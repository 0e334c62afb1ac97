// Products of batches of matrices, in the ways in which ATen's callers write them.
#include "runtime/compile/Attention.h"

#include <ATen/ExpandUtils.h>
#include <algorithm>

namespace kiln::compiled {

namespace {

using Order = std::vector<std::int64_t>;

Order identity(std::size_t rank) {
  Order order(rank);
  for (std::size_t i = 0; i < rank; ++i)
    order[i] = static_cast<std::int64_t>(i);
  return order;
}

Order plainIfIdentity(Order order) {
  return order == identity(order.size()) ? Order() : order;
}

bool has(const std::string& letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

/// Where the letters of `wanted` are among `letters`.
Order placesOf(const std::string& wanted, const std::string& letters) {
  Order order;
  for (char letter : wanted)
    order.push_back(static_cast<std::int64_t>(letters.find(letter)));
  return plainIfIdentity(order);
}

/// An einsum of two operands: a letter or a digit for each dimension.
struct Equation {
  std::string a, b, result;
};

/// An ellipsis stands for digits, the last dimension's always the same.
std::string spelledOut(std::string letters, std::size_t rank) {
  const std::size_t dots = letters.find("...");
  if (dots == std::string::npos)
    return letters;
  const std::size_t others = letters.size() - 3;
  if (rank < others || rank - others > 9)
    return "";
  std::string digits;
  for (std::size_t i = rank - others; i > 0; --i)
    digits += static_cast<char>('0' + i);
  return letters.replace(dots, 3, digits);
}

/// None: the result is not written out, or a diagonal is taken.
std::optional<Equation> equationOf(std::string text, std::size_t rankA, std::size_t rankB,
                                   std::size_t rank) {
  std::erase(text, ' ');
  const std::size_t comma = text.find(','), arrow = text.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow)
    return std::nullopt;
  const Equation all{spelledOut(text.substr(0, comma), rankA),
                     spelledOut(text.substr(comma + 1, arrow - comma - 1), rankB),
                     spelledOut(text.substr(arrow + 2), rank)};
  const auto fits = [](std::string letters, std::size_t wanted) {
    const bool isPlain = letters.size() == wanted && !has(letters, ',');
    std::ranges::sort(letters);
    return isPlain && std::ranges::adjacent_find(letters) == letters.end();
  };
  if (!fits(all.a, rankA) || !fits(all.b, rankB) || !fits(all.result, rank))
    return std::nullopt;
  return all;
}

/// Dimensions of the batch are in the order in which `like` has them.
std::optional<Product> productOf(const Equation& all, Slot a, Slot b, const std::string& like) {
  std::string batch, ownA, ownB, summed;
  for (char letter : all.a)
    if (!has(all.b, letter))
      ownA += letter;
    else if (!has(all.result, letter))
      summed += letter;
  for (char letter : all.b)
    if (!has(all.a, letter))
      ownB += letter;
  for (char letter : like)
    if (has(all.a, letter) && has(all.b, letter) && has(all.result, letter))
      batch += letter;
  if (ownA.size() != 1 || ownB.size() != 1 || summed.size() != 1 || !has(all.result, ownA[0]) ||
      !has(all.result, ownB[0]) || all.result.size() != batch.size() + 2)
    return std::nullopt;
  return Product{{a, placesOf(batch + ownA + summed, all.a)},
                 {b, placesOf(batch + ownB + summed, all.b)},
                 placesOf(all.result, batch + ownA + ownB)};
}

std::optional<Product> einsumOf(const Tape& tape, const Op& op, Slot left) {
  const auto& slots = op.arguments[1].slots;
  if (slots.size() != 2)
    return std::nullopt;
  const auto rankOf = [&](Slot slot) { return tape.value(slot).sizes.size(); };
  auto all = equationOf(op.arguments[0].constant.toStringRef(), rankOf(slots[0]), rankOf(slots[1]),
                        rankOf(op.result()));
  if (!all || all->result.empty())
    return std::nullopt;
  Slot a = slots[0], b = slots[1];
  if (left == noSlot ? has(all->a, all->result.back()) : left == b) {
    std::swap(a, b);
    std::swap(all->a, all->b);
  }
  return productOf(*all, a, b, left == noSlot ? all->result : all->a);
}

/// The second operand of a product is [..., c, n].
Ordered transposed(const Tape& tape, Slot slot) {
  Order order = identity(tape.value(slot).sizes.size());
  std::swap(order[order.size() - 2], order[order.size() - 1]);
  return {slot, order};
}

std::optional<Product> spelled(const Tape& tape, const Op& op, Slot left) {
  if (op.is({"aten::einsum"}))
    return einsumOf(tape, op, left);
  const bool isAdded = op.is({"aten::baddbmm", "aten::addmm"});
  if (!isAdded && !op.is({"aten::matmul", "aten::bmm", "aten::mm"}))
    return std::nullopt;
  const std::size_t first = isAdded ? 1 : 0;
  const Slot a = op.arguments[first].slots[0], b = op.arguments[first + 1].slots[0];
  if (tape.value(a).sizes.size() < 2 || tape.value(b).sizes.size() < 2)
    return std::nullopt;
  Product product{{a, {}}, transposed(tape, b), {}};
  if (isAdded) { // beta added + alpha a b
    const c10::IValue &beta = op.arguments[3].constant, &alpha = op.arguments[4].constant;
    if (!beta.isScalar() || !alpha.isScalar())
      return std::nullopt;
    const double factor = beta.toScalar().toDouble();
    product.scale = alpha.toScalar().toDouble();
    if (factor != 0)
      product.added = {op.arguments[0].slots[0], factor};
  }
  return product;
}

} // namespace

at::Tensor Ordered::of(const at::Tensor& tensor) const {
  return order.empty() ? tensor : tensor.permute(order);
}

at::DimVector Ordered::sizes(const Tape& tape) const {
  const at::DimVector& all = tape.value(slot).sizes;
  if (order.empty())
    return all;
  at::DimVector sizes;
  for (std::int64_t dim : order)
    sizes.push_back(all[static_cast<std::size_t>(dim)]);
  return sizes;
}

std::optional<Product> productOf(const Tape& tape, const Op& op, Slot left) {
  std::optional<Product> product = spelled(tape, op, left);
  if (!product)
    return std::nullopt;
  const bool isInOrder =
      left == noSlot ? product->order.empty() : product->a.slot == left && product->a.order.empty();
  const at::DimVector a = product->a.sizes(tape), b = product->b.sizes(tape);
  if (!isInOrder || a.back() != b.back())
    return std::nullopt;
  const auto leading = at::infer_size(at::IntArrayRef(a).slice(0, a.size() - 2),
                                      at::IntArrayRef(b).slice(0, b.size() - 2));
  product->leading.assign(leading.begin(), leading.end());
  return product;
}

} // namespace kiln::compiled
