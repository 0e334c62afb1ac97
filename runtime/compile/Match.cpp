// Finding attention. From each softmax along the last dimension up to the product that makes its
// scores, and down to the one that its probabilities go into. What lies between must be read by
// nobody else.
#include "runtime/compile/Attention.h"
#include "runtime/compile/Flow.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace kiln::compiled {

namespace {

/// Scores that are as low hide a key: beside another its exponential is zero.
constexpr double kHides = -1e4;

at::IntArrayRef leadingOf(at::IntArrayRef sizes) {
  return sizes.slice(0, sizes.size() - 2);
}

class Matcher {
 public:
  Matcher(const Tape& tape, const std::vector<bool>& dead) : tape(tape), flow(tape, dead) {}
  /// The attention around a softmax; none: `why` not, empty where it does not look like one.
  std::optional<Attention> match(unsigned softmax, std::string& why);

 private:
  /// An attention between the products, and what has been seen of it on the way up.
  struct Way {
    Attention made;
    bool isScaled = false, hidesFully = false;
  };

  bool fail(std::string text) {
    why = std::move(text);
    return false;
  }
  bool isAlong(unsigned softmax);
  bool isSound();
  bool isUsable(const Op& op);
  std::optional<double> numberOf(const Op& op, std::size_t i) const;
  static Slot tensorOf(const Op& op, std::size_t i);
  bool keepsScores(const Op& op) const;
  bool climb(Slot slot);
  bool takeScores(const Op& op, const Product& product);
  bool takeFactor(const Op& op);
  bool takeSum(const Op& op);
  bool takeMask(const Op& op, std::size_t mask, std::size_t scores, bool isSeen);
  bool takeBias(const Added& added, const at::DimVector& sizes);
  bool isShape(const at::DimVector& sizes);
  void foldFactor(Ordered& query);
  bool descend(Slot slot);
  bool takeValues(unsigned i, const Product& product);

  const Tape& tape;
  const Flow flow;
  Way way;
  bool gradMode = true;
  std::string why;
};

/// An argument that is a tensor.
Slot Matcher::tensorOf(const Op& op, std::size_t i) {
  return op.arguments[i].is == Item::Is::tensor ? op.arguments[i].slots[0] : noSlot;
}

std::optional<double> Matcher::numberOf(const Op& op, std::size_t i) const {
  const Item& item = op.arguments[i];
  if (item.is == Item::Is::tensor)
    return item.slots[0] == noSlot ? std::nullopt : tape.value(item.slots[0]).constant;
  const bool isReal = item.constant.isScalar() && !item.constant.toScalar().isComplex();
  return isReal ? std::optional(item.constant.toScalar().toDouble()) : std::nullopt;
}

/// Whether an operation's result may be left out.
bool Matcher::isUsable(const Op& op) {
  if (op.results.size() != 1 || op.results[0].is != Item::Is::tensor || op.isBarrier ||
      op.gradMode != gradMode)
    return fail(fmt::format("{} is among them", op.name()));
  const Value& value = tape.value(op.result());
  if (!at::isFloatingType(value.dtype) || value.isWrittenInPlace)
    return fail(fmt::format("the result of {} is {}", op.name(),
                            value.isWrittenInPlace ? "written in place, through a view"
                                                   : c10::toString(value.dtype)));
  return true;
}

/// Casts, and other leading dimensions for the same matrices.
bool Matcher::keepsScores(const Op& op) const {
  const Slot slot = op.arguments.empty() ? noSlot : tensorOf(op, 0);
  if (slot == noSlot)
    return false;
  const Value &from = tape.value(slot), &to = tape.value(op.result());
  if (from.device != to.device || !at::isFloatingType(from.dtype))
    return false;
  if (op.is({"aten::to", "aten::_to_copy", "aten::type_as", "aten::contiguous", "aten::clone"}))
    return from.sizes == to.sizes;
  const auto rank = from.sizes.size();
  return op.is({"aten::view", "aten::reshape", "aten::_unsafe_view", "aten::unflatten",
                "aten::flatten", "aten::squeeze", "aten::unsqueeze"}) &&
         rank >= 2 && to.sizes.size() >= 2 && to.sizes.back() == from.sizes.back() &&
         to.sizes[to.sizes.size() - 2] == from.sizes[rank - 2] &&
         c10::multiply_integers(from.sizes) == c10::multiply_integers(to.sizes);
}

/// A scale of the scores before anything is added to them.
bool Matcher::takeFactor(const Op& op) {
  const bool isQuotient = op.base() == "aten::div";
  if (isQuotient && op.arguments.size() > 2)
    return fail("its scores are rounded");
  for (const std::size_t scores : {0, 1}) {
    const auto number = numberOf(op, 1 - scores);
    const Slot slot = tensorOf(op, scores);
    if (!number || slot == noSlot || (isQuotient && scores == 1))
      continue;
    if (tape.value(slot).sizes != tape.value(op.result()).sizes)
      return fail("a factor has another shape than its scores");
    way.made.scale *= isQuotient ? 1 / *number : *number;
    way.isScaled = true;
    return climb(slot);
  }
  return fail("its scores are scaled by a tensor");
}

/// Biases and masks are all broadcast to one shape.
bool Matcher::isShape(const at::DimVector& sizes) {
  if (way.isScaled)
    return fail("its scores are scaled behind a bias or a mask");
  if (!way.made.scores.empty() && way.made.scores != sizes)
    return fail("biases and masks are broadcast to several shapes");
  way.made.scores = sizes;
  return true;
}

bool Matcher::takeBias(const Added& added, const at::DimVector& sizes) {
  const Value& bias = tape.value(added.slot);
  if (bias.constant && std::isfinite(*bias.constant))
    return true; // the same for all keys
  if (!at::isFloatingType(bias.dtype) || bias.isWrittenInPlace)
    return fail(fmt::format("what is added to its scores is {}",
                            bias.isWrittenInPlace ? "written in place, through a view"
                                                  : c10::toString(bias.dtype)));
  way.made.biases.push_back(added);
  return isShape(sizes);
}

bool Matcher::takeSum(const Op& op) {
  const double sign = op.base() == "aten::sub" ? -1 : 1;
  const auto alpha = numberOf(op, 2);
  if (!alpha)
    return fail("a factor that is no number");
  const at::DimVector& sizes = tape.value(op.result()).sizes;
  for (const std::size_t scores : {0, 1}) { // either operand may come of the product
    const Slot slot = tensorOf(op, scores), other = tensorOf(op, 1 - scores);
    if (slot == noSlot || tape.value(slot).sizes != sizes ||
        (scores == 1 && (sign < 0 || *alpha != 1)))
      continue;
    const Way before = way;
    const bool isNumber = other == noSlot; // the same for all keys
    if ((isNumber || takeBias({other, sign * *alpha}, sizes)) && climb(slot))
      return true;
    way = before;
  }
  return why.empty() ? fail("what is added to its scores has another shape") : false;
}

bool Matcher::takeMask(const Op& op, std::size_t mask, std::size_t scores, bool isSeen) {
  const Slot slot = tensorOf(op, scores), hides = tensorOf(op, mask);
  const auto fill = numberOf(op, 3 - mask - scores);
  if (slot == noSlot || hides == noSlot)
    return fail("its mask hides a number");
  if (!fill || !(*fill <= kHides))
    return fail(
        fill ? fmt::format("its mask sets scores to {}, at most {} hides a key", *fill, kHides)
             : "its mask sets scores to what is no number");
  if (const Value& its = tape.value(hides); its.dtype != at::kBool || its.isWrittenInPlace)
    return fail(fmt::format("its mask is {}", its.dtype == at::kBool
                                                  ? "written in place, through a view"
                                                  : c10::toString(its.dtype)));
  const at::DimVector& sizes = tape.value(op.result()).sizes;
  if (tape.value(slot).sizes != sizes)
    return fail("its mask is not broadcast to its scores");
  Attention& made = way.made;
  if (std::isfinite(*fill)) { // rows of which all is hidden are uniform, if nothing comes behind
    if (!made.biases.empty() || way.hidesFully || made.fill.value_or(*fill) != *fill)
      return fail("its masks set scores to several numbers, or something is added behind them");
    made.fill = fill;
  } else if (made.fill) {
    return fail("its masks set scores to several numbers");
  } else {
    way.hidesFully = true;
  }
  made.masks.push_back({hides, isSeen});
  return isShape(sizes) && climb(slot);
}

/// From scores to the product that they come of.
bool Matcher::climb(Slot slot) {
  const int maker = flow.makerOf(slot);
  if (maker < 0)
    return fail("its scores are an argument");
  if (!flow.isReadOnce(slot))
    return fail("its scores are used elsewhere");
  const Op& op = tape.ops[static_cast<std::size_t>(maker)];
  if (!isUsable(op))
    return false;
  way.made.ops.push_back(static_cast<unsigned>(maker));
  if (const auto product = productOf(tape, op, noSlot))
    return takeScores(op, *product);
  if (keepsScores(op))
    return climb(op.arguments[0].slots[0]);
  const std::string base = op.base();
  if (op.is({"aten::mul", "aten::div"}))
    return takeFactor(op);
  if (op.is({"aten::add", "aten::sub"}))
    return takeSum(op);
  if (base == "aten::masked_fill")
    return takeMask(op, 1, 0, false);
  if (base == "aten::where" && op.arguments.size() == 3)
    return numberOf(op, 2) ? takeMask(op, 0, 1, true) : takeMask(op, 0, 2, false);
  return fail(fmt::format("its scores go through {}", op.name()));
}

/// Of a query alone, before the product.
void Matcher::foldFactor(Ordered& query) {
  const int maker = flow.makerOf(query.slot);
  if (maker < 0 || !flow.isReadOnce(query.slot))
    return;
  const Op& op = tape.ops[static_cast<std::size_t>(maker)];
  const bool isQuotient = op.base() == "aten::div";
  if ((!isQuotient && op.base() != "aten::mul") || op.arguments.size() > 2 || !isUsable(op))
    return;
  const auto number = numberOf(op, 1);
  const Slot plain = tensorOf(op, 0);
  if (!number || plain == noSlot || tape.value(plain).dtype != tape.value(query.slot).dtype ||
      tape.value(plain).sizes != tape.value(query.slot).sizes)
    return;
  way.made.ops.push_back(static_cast<unsigned>(maker));
  way.made.scale *= isQuotient ? 1 / *number : *number;
  query.slot = plain;
}

bool Matcher::takeScores(const Op& op, const Product& product) {
  const at::DimVector& sizes = tape.value(op.result()).sizes;
  Attention& made = way.made;
  if (product.added && !takeBias(*product.added, sizes))
    return false;
  made.query = product.a;
  made.key = product.b;
  made.leading = product.leading;
  made.scale *= product.scale;
  foldFactor(made.query);
  if (made.scores.empty())
    made.scores = sizes;
  return true;
}

/// From probabilities to the product with the values.
bool Matcher::descend(Slot slot) {
  for (;;) {
    if (!flow.isReadOnce(slot))
      return fail("its probabilities are used elsewhere");
    const unsigned i = flow.readersOf(slot)[0];
    const Op& op = tape.ops[i];
    if (!isUsable(op))
      return false;
    way.made.ops.push_back(i);
    if (const auto product = productOf(tape, op, slot))
      return takeValues(i, *product);
    if (op.base() == "aten::dropout" && !way.made.dropout && op.arguments[2].constant.toBool()) {
      way.made.dropout = i;
      way.made.p = op.arguments[1].constant.toDouble();
    } else if (!keepsScores(op)) {
      return fail(fmt::format("its probabilities go through {}", op.name()));
    }
    slot = op.result();
  }
}

bool Matcher::takeValues(unsigned i, const Product& product) {
  const at::DimVector own = product.a.sizes(tape);
  if (product.added || product.scale != 1 || leadingOf(own) != at::IntArrayRef(product.leading))
    return fail("its values are more than the probabilities");
  Attention& made = way.made;
  made.value = product.b; // [..., dv, t]
  const auto rank = static_cast<std::int64_t>(product.b.sizes(tape).size());
  if (made.value.order.empty())
    for (std::int64_t dim = 0; dim < rank; ++dim)
      made.value.order.push_back(dim);
  std::swap(made.value.order.back(), *(made.value.order.end() - 2));
  made.valueLeading = product.leading;
  made.order = product.order;
  made.result = tape.ops[i].result();
  made.isAnyLayout = flow.isAnyLayout(made.result);
  return true;
}

/// Operands are read when the result is made. Of a negative scale kernels would not know the
/// largest score by the largest product.
bool Matcher::isSound() {
  const Attention& made = way.made;
  if (!(made.scale > 0))
    return fail(fmt::format("its scale is {}, it must be above 0", made.scale));
  for (const Slot slot : {made.query.slot, made.key.slot, made.value.slot, made.result})
    if (tape.value(slot).isWrittenInPlace)
      return fail("a query, key, value or result is written in place, through a view");
  return true;
}

bool Matcher::isAlong(unsigned softmax) {
  const Op& op = tape.ops[softmax];
  const std::int64_t dim = op.arguments[1].constant.toInt();
  const auto rank = static_cast<std::int64_t>(tape.value(op.result()).sizes.size());
  return dim == -1 || dim == rank - 1 || fail("its softmax is not along the last dimension");
}

std::optional<Attention> Matcher::match(unsigned softmax, std::string& reason) {
  const Op& op = tape.ops[softmax];
  if (!op.is({"aten::softmax", "aten::_softmax"}) || !op.arguments[1].constant.isInt())
    return std::nullopt;
  way = {};
  why.clear();
  gradMode = op.gradMode;
  way.made.ops.push_back(softmax);
  if (isAlong(softmax) && isUsable(op) && descend(op.result()) && climb(op.arguments[0].slots[0]) &&
      isSound()) {
    std::sort(way.made.ops.begin(), way.made.ops.end());
    return std::move(way.made);
  }
  constexpr int kFar = 5;
  if (flow.comesOfProduct(op.arguments[0].slots[0], kFar) &&
      flow.goesIntoProduct(op.result(), kFar))
    reason = why;
  return std::nullopt;
}

} // namespace

Attentions attentionsOf(const Tape& tape, const std::vector<bool>& dead) {
  Attentions all;
  Matcher matcher(tape, dead);
  for (unsigned i = 0; i < tape.ops.size(); ++i) {
    if (dead[i])
      continue;
    std::string why;
    if (auto found = matcher.match(i, why))
      all.found.push_back(std::move(*found));
    else if (!why.empty())
      all.whyNot[i] = why;
  }
  return all;
}

} // namespace kiln::compiled
