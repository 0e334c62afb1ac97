// The kiln dialect: operations, attributes and the interface that every named op implements.
// Glossary: a value's "row" is its last dimension; a "column" runs over the leading ones.
#pragma once

#include "dialect/Gradient.h"
#include "dialect/Math.h"
#include "dialect/OpFunction.h"
#include "dialect/Reference.h"
#include "dialect/Schedule.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/DialectInterface.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace kiln {
llvm::hash_code hash_value(const Schedule& schedule);
} // namespace kiln

namespace kiln::ir {

/// An attribute without a dialect's name before it must be one of the operation's own.
mlir::LogicalResult verifyOwnAttributes(mlir::Operation* op);
/// What an operation takes the numbers of an operand for: those that are drawn to check it keep to
/// that.
struct NumbersTaken {
  std::optional<double> lowest; // none is below: 0 of a mean of squares, of a count
  mlir::Value ascendWithin;     // they ascend from 0 to at most a size of this value
  int dimension = 0;
};

template <class Op> class OwnAttributes : public mlir::OpTrait::TraitBase<Op, OwnAttributes> {
 public:
  static mlir::LogicalResult verifyTrait(mlir::Operation* op) { return verifyOwnAttributes(op); }
};

} // namespace kiln::ir

#include "dialect/Dialect.h.inc"
#include "dialect/Enums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/Attributes.h.inc"
#include "dialect/Interfaces.h.inc"
#define GET_OP_CLASSES
#include "dialect/Ops.h.inc"

namespace kiln::ir {

/// What families of kernels add to the dialect: the forms of their schedules, without which none
/// can be read.
class ScheduleForms : public mlir::DialectInterface::Base<ScheduleForms> {
 public:
  explicit ScheduleForms(mlir::Dialect* dialect) : Base(dialect) {}
  virtual llvm::ArrayRef<const ScheduleForm*> all() const = 0;
};

/// Loads kiln and the upstream dialects that its functions use.
void registerDialects(mlir::DialectRegistry& registry);

/// Names of the attributes on functions and modules.
inline constexpr llvm::StringLiteral kLayoutAttr = "kiln.layout";
inline constexpr llvm::StringLiteral kNameAttr = "kiln.name";
/// On an argument: it was complete before the launch that precedes the function's first kernel
/// began (a saved activation, say), so that the kernel may load it before that launch has ended.
inline constexpr llvm::StringLiteral kOlderAttr = "kiln.older";
inline constexpr llvm::StringLiteral kListAttr = "kiln.list";
/// Parts that the lists of a function may be divided into.
inline constexpr int kMaxListParts = 16;
/// The part that a `kiln.list` names; 0 without a number.
int listPart(mlir::Attribute list);
/// On arith.mulf: the product is rounded by itself, never contracted with a sum.
inline constexpr llvm::StringLiteral kRoundedAttr = "kiln.rounded";
/// On operations: results are always stored; all of one name are one kernel. See kiln-fuse.
inline constexpr llvm::StringLiteral kCutAttr = "kiln.cut";
inline constexpr llvm::StringLiteral kFuseAttr = "kiln.fuse";
/// On math.sin and math.cos: no angle is larger than 2^20, so the general case is left out.
inline constexpr llvm::StringLiteral kNearAttr = "kiln.near";
inline constexpr llvm::StringLiteral kTargetAttr = "kiln.target";
/// On a module of exit operations: the plan of its launches, as JSON.
inline constexpr llvm::StringLiteral kLaunchAttr = "kiln.launch";
/// On an argument or a result, `false`: it has no gradient.
inline constexpr llvm::StringLiteral kGradientAttr = "kiln.gradient";

// Names that the dialect does not know are errors that say what it does; see Misspelt.cpp.

/// `name`, with the dialect's prefix, is that of an attribute of operations.
mlir::LogicalResult verifyOperationName(mlir::Operation* op, llvm::StringRef name);
/// `name` is that of an attribute of `what`, "argument" or "result", number `index`.
mlir::LogicalResult verifyTensorName(mlir::Operation* op, llvm::StringRef what, unsigned index,
                                     llvm::StringRef name);
/// Every `NAME =` that the parser has before it, up to the closing '>', is one of the fields.
mlir::LogicalResult verifyFields(mlir::AsmParser& parser,
                                 llvm::ArrayRef<llvm::StringLiteral> fields);

/// "[?, 128]", for messages.
std::string shapeText(llvm::ArrayRef<int64_t> shape);

// Shared checks of verifiers. Each reports what is wrong with its numbers, and what is allowed.

/// `value`, if given, has `shape`; `what` and `of` name the two in the message.
mlir::LogicalResult verifyShape(mlir::Operation* op, llvm::StringRef what, mlir::Value value,
                                llvm::ArrayRef<int64_t> shape, llvm::StringRef of);
/// The input has rank >= 1 and a static, non-empty row.
mlir::LogicalResult verifyRow(mlir::Operation* op, mlir::Value input);
/// The input has rank >= 1 and the output its shape.
mlir::LogicalResult verifyElementwise(mlir::Operation* op, mlir::Value input, mlir::Value output);
/// `value` is fp32 with the leading shape of `input`: one number a row.
mlir::LogicalResult verifyStatistic(mlir::Operation* op, llvm::StringRef what, mlir::Value value,
                                    mlir::Value input);

/// `value` has rank 2 and a static, non-empty row: a table of rows.
mlir::LogicalResult verifyTable(mlir::Operation* op, llvm::StringRef what, mlir::Value value);
/// The padding index, if there is one, is a number that the indices can hold.
mlir::LogicalResult verifyPadding(mlir::Operation* op, mlir::Value index,
                                  std::optional<int64_t> padding);

/// What an operation that reads the value, in a kernel or outside, takes its numbers for.
NumbersTaken numbersTaken(mlir::Value value);

inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}

} // namespace kiln::ir
