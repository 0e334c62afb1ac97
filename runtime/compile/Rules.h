// Which of ATen's operations are expressions of kiln::fuse, and how: a row of a table each.
#pragma once

#include "kiln/fuse.h"
#include "runtime/compile/Tape.h"

namespace kiln::compiled {

/// Why an operation is not part of a kernel.
struct Refused {
  std::string why;
};

/// An operation with the expressions of what it reads.
struct Call {
  const Tape& tape;
  const Op& op;
  const std::function<Expr(Slot)>& exprOf;

  [[noreturn]] static void refuse(std::string why) { throw Refused{std::move(why)}; }
  const c10::IValue& constant(std::size_t i) const { return op.arguments[i].constant; }
  bool isMissing(std::size_t i) const;
  const Value& value(std::size_t i) const { return tape.value(op.arguments[i].slots.at(0)); }
  const Value& result() const { return tape.value(op.results[0].slots[0]); }
  /// A tensor, or a number.
  Expr operator()(std::size_t i) const;
  double number(std::size_t i) const;
};

enum class RuleKind { elementwise, alongRows };

/// The result of the operation, whose first result is a tensor. Throws Refused.
Expr expressionOf(const Call& call, RuleKind& kind);

} // namespace kiln::compiled
