// See ScalarText.h.
#include "codegen/emit/ScalarText.h"

#include "dialect/Kiln.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringMap.h"

#include <cmath>

using namespace mlir;

namespace kiln {

// Precedences are C++'s, higher binds tighter: 15 unary, 13 product, 12 sum, 9 order,
// 8 equality, 7 and, 6 xor, 5 or, 3 conditional.
static const ScalarText kTexts[] = {
    {"arith.addf", "$0 + $1", 12},
    {"arith.subf", "$0 - $1", 12},
    {"arith.mulf", "$0 * $1", 13},
    {"arith.divf", "$0 / $1", 13, "outlined_quotient($0, $1)"},
    {"arith.negf", "-$0", 15},
    {"arith.maximumf", "maximum($0, $1)", kPrimary},
    {"arith.minimumf", "minimum($0, $1)", kPrimary},
    {"arith.maxnumf", "fmaxf($0, $1)", kPrimary},
    {"arith.minnumf", "fminf($0, $1)", kPrimary},
    {"arith.select", "$0 ? $1 : $2", 3},
    {"arith.extf", "$t($0)", kPrimary},
    {"arith.truncf", "$t($0)", kPrimary},
    {"arith.bitcast", "__builtin_bit_cast($t, $0)", kPrimary},
    {"arith.sitofp", "$t($0)", kPrimary},
    {"arith.uitofp", "$t($0)", kPrimary},
    {"arith.fptosi", "$t($0)", kPrimary},
    {"arith.extsi", "$t($0)", kPrimary},
    {"arith.extui", "$t($0)", kPrimary},
    {"arith.addi", "$0 + $1", 12},
    {"arith.subi", "$0 - $1", 12},
    {"arith.muli", "$0 * $1", 13},
    {"arith.andi", "$0 & $1", 7},
    {"arith.ori", "$0 | $1", 5},
    {"arith.xori", "$0 ^ $1", 6},
    {"math.exp", "expf($0)", kPrimary},
    {"math.exp2", "exp2f($0)", kPrimary},
    {"math.expm1", "expm1f($0)", kPrimary, "outlined_expm1($0)"},
    {"math.log", "logf($0)", kPrimary, "outlined_log($0)"},
    {"math.log2", "log2f($0)", kPrimary, "outlined_log2($0)"},
    {"math.rsqrt", "inverse_sqrt($0)", kPrimary, "outlined_inverse_sqrt($0)"},
    {"math.sqrt", "sqrtf($0)", kPrimary},
    {"math.tanh", "tanhf($0)", kPrimary},
    {"math.erf", "erff($0)", kPrimary, "outlined_erf($0)"},
    {"math.absf", "fabsf($0)", kPrimary},
    {"math.sin", "sine($0)", kPrimary, "outlined_sine($0)"},
    {"math.cos", "cosine($0)", kPrimary, "outlined_cosine($0)"},
    {"math.fma", "fmaf($0, $1, $2)", kPrimary},
    {"math.floor", "floorf($0)", kPrimary},
    {"math.ceil", "ceilf($0)", kPrimary},
    {"math.powf", "powf($0, $1)", kPrimary, "outlined_power($0, $1)"},
    {"arith.cmpf", "", 8},
    {"arith.cmpi", "", 8},
};

ArrayRef<ScalarText> scalarTexts() {
  return kTexts;
}

const ScalarText* findScalarText(StringRef name) {
  static const llvm::StringMap<const ScalarText*> byName = [] {
    llvm::StringMap<const ScalarText*> map;
    for (const ScalarText& text : kTexts)
      map[text.name] = &text;
    return map;
  }();
  return byName.lookup(name);
}

static ScalarText floatComparison(arith::CmpFPredicate predicate) {
  using P = arith::CmpFPredicate;
  switch (predicate) {
  case P::OEQ:
    return {"", "$0 == $1", 8};
  case P::UNE:
    return {"", "$0 != $1", 8};
  case P::OGT:
    return {"", "$0 > $1", 9};
  case P::OGE:
    return {"", "$0 >= $1", 9};
  case P::OLT:
    return {"", "$0 < $1", 9};
  case P::OLE:
    return {"", "$0 <= $1", 9};
  case P::UGT:
    return {"", "!($0 <= $1)", 15};
  case P::UGE:
    return {"", "!($0 < $1)", 15};
  case P::ULT:
    return {"", "!($0 >= $1)", 15};
  case P::ULE:
    return {"", "!($0 > $1)", 15};
  case P::ONE:
    return {"", "less_or_greater($0, $1)", kPrimary};
  case P::UEQ:
    return {"", "!less_or_greater($0, $1)", 15};
  case P::ORD:
    return {"", "!unordered($0, $1)", 15};
  case P::UNO:
    return {"", "unordered($0, $1)", kPrimary};
  case P::AlwaysTrue:
    return {"", "true", kPrimary};
  case P::AlwaysFalse:
    return {"", "false", kPrimary};
  }
  llvm_unreachable("all predicates are listed");
}

static ScalarText integerComparison(arith::CmpIPredicate predicate) {
  using P = arith::CmpIPredicate;
  switch (predicate) {
  case P::eq:
    return {"", "$0 == $1", 8};
  case P::ne:
    return {"", "$0 != $1", 8};
  case P::slt:
    return {"", "$0 < $1", 9};
  case P::sle:
    return {"", "$0 <= $1", 9};
  case P::sgt:
    return {"", "$0 > $1", 9};
  case P::sge:
    return {"", "$0 >= $1", 9};
  case P::ult:
    return {"", "u64($0) < u64($1)", 9};
  case P::ule:
    return {"", "u64($0) <= u64($1)", 9};
  case P::ugt:
    return {"", "u64($0) > u64($1)", 9};
  case P::uge:
    return {"", "u64($0) >= u64($1)", 9};
  }
  llvm_unreachable("all predicates are listed");
}

static bool isApproximate(Operation* op) {
  auto math = dyn_cast<arith::ArithFastMathInterface>(op);
  return math &&
         bitEnumContainsAll(math.getFastMathFlagsAttr().getValue(), arith::FastMathFlags::afn);
}

/// By a constant whose reciprocal is inexact, and normal with all that it is multiplied with.
static bool isDivisionByConstant(Operation* op) {
  APFloat divisor(0.0f);
  if (!isa<arith::DivFOp>(op) || !matchPattern(op->getOperand(1), m_ConstantFloat(&divisor)))
    return false;
  int exponent = ilogb(divisor);
  return op->getResult(0).getType().isF32() && std::abs(exponent) < 64 &&
         !divisor.getExactInverse(nullptr);
}

ScalarText scalarText(Operation* op) {
  if (auto compare = dyn_cast<arith::CmpFOp>(op))
    return floatComparison(compare.getPredicate());
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    return integerComparison(compare.getPredicate());
  if (isa<math::ExpOp>(op) && isApproximate(op))
    return {"", "fast_exp($0)", kPrimary};
  if (op->hasAttr(ir::kNearAttr) && isApproximate(op))
    return isa<math::SinOp>(op) ? ScalarText{"", "fast_sine($0)", kPrimary}
                                : ScalarText{"", "fast_cosine($0)", kPrimary};
  if (op->hasAttr(ir::kNearAttr))
    return isa<math::SinOp>(op)
               ? ScalarText{"", "near_sine($0)", kPrimary, "outlined_near_sine($0)"}
               : ScalarText{"", "near_cosine($0)", kPrimary, "outlined_near_cosine($0)"};
  if (isDivisionByConstant(op))
    return {"", "divide_by($0, $1)", kPrimary};
  if (isa<arith::DivFOp>(op) && isApproximate(op))
    return matchPattern(op->getOperand(0), m_OneFloat())
               ? ScalarText{"", "fast_reciprocal($1)", kPrimary}
               : ScalarText{"", "fast_quotient($0, $1)", kPrimary};
  if (op->hasAttr(ir::kRoundedAttr))
    return {"", "rounded_product($0, $1)", kPrimary};
  const ScalarText* found = findScalarText(op->getName().getStringRef());
  assert(found && "kiln-lower lets only known scalar operations pass");
  return *found;
}

std::string literalText(Attribute value) {
  if (auto integer = dyn_cast<IntegerAttr>(value)) {
    if (integer.getType().isInteger(1))
      return integer.getInt() ? "true" : "false";
    return std::to_string(integer.getInt()) + (integer.getType().isInteger(64) ? "ll" : "");
  }
  APFloat number = cast<FloatAttr>(value).getValue();
  bool lossy;
  number.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &lossy);
  float f = number.convertToFloat();
  if (std::isnan(f))
    return "bits_to_float(0x7fc00000u)";
  if (std::isinf(f))
    return f > 0 ? "bits_to_float(0x7f800000u)" : "bits_to_float(0xff800000u)";
  char text[48];
  snprintf(text, sizeof text, "%.9g", f);
  std::string digits = text;
  if (digits.find_first_of(".e") == std::string::npos)
    digits += ".0";
  return digits + "f";
}

} // namespace kiln
