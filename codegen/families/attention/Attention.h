// What an attention kernel computes, as its region says: one operation of attention, with
// elementwise math behind it, or one kind of gradient of it, whose results may be rounded.
#pragma once

#include "codegen/families/attention/Epilogue.h"
#include "codegen/families/attention/Schedule.h"
#include "codegen/family/Refusal.h"
#include "dialect/Attention.h"

namespace kiln::attention {

/// Whether the gradients of queries, keys and values can be one kernel whose blocks take turns.
bool canTakeTurns(ir::AttentionBackwardOp op);

/// Whether the operation is executed by this family.
bool isAttention(mlir::Operation* op);

/// Kinds of gradients that a backward asks for, each of which is a kernel: of wide rows those of
/// keys and of values are. Where rows are narrow and queries few, that of a bias which heads share
/// is summed in the kernel of keys and values. Where keys are few too, all are one kernel, and so
/// are those without a bias where a target has products of warpgroups, or where rows are narrow and
/// keys few.
llvm::SmallVector<llvm::SmallVector<unsigned>> resultsByKernel(ir::AttentionBackwardOp op,
                                                               const Target& target);

struct Program {
  mlir::Operation* op; // in the kernel's region
  Kind kind;
  ir::AttentionForm form;                   // operands are arguments of the region
  mlir::Value outputGradient, delta, lse;   // of a backward
  llvm::SmallVector<int> outputs;           // by result of the operation: of the kernel; -1: none
  std::shared_ptr<const Epilogue> epilogue; // of an output that is not stored as it is; else null

  /// Which result of a backward the bias's gradient is; -1: none.
  int biasGradient() const;
  /// Which result of a backward the first gradient of keys or values is, behind one of queries.
  unsigned firstOfKeys() const;
  int64_t heads() const { return ir::tensorType(form.query).getShape().take_back(3).front(); }
  int64_t keyHeads() const { return ir::tensorType(form.key).getShape().take_back(3).front(); }
  int64_t width() const { return ir::tensorType(form.query).getShape().back(); }
  int64_t valueWidth() const { return ir::tensorType(form.value).getShape().back(); }
};

std::optional<Program> analyze(ir::KernelOp kernel, family::Refusal& refusal);

} // namespace kiln::attention
