// A family of kernels: a way to execute functions or parts of them, in a folder of its own under
// codegen/families. Whatever is true of one family only stands there; passes, program/, autotune/
// and the tools know what this file and model/KernelModel.h declare, and no family by its name.
//
// Most families execute kernels: groups of operations that kiln-fuse makes. A family of functions
// takes whole functions, of arguments that no other can read, and divides and plans them itself.
#pragma once

#include "codegen/family/Buffers.h"
#include "codegen/family/Refusal.h"
#include "codegen/family/Shapes.h"
#include "codegen/model/KernelModel.h"

#include "mlir/IR/BuiltinOps.h"

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace kiln::family {

class FusionPreparation;

/// A dimension of a value of the function.
using Dimension = std::pair<mlir::Value, int>;

/// The run-time sizes of a function, of which some must agree.
class SizeClasses {
  struct Less {
    bool operator()(const Dimension& a, const Dimension& b) const;
  };

 public:
  template <class Value> using Map = std::map<Dimension, Value, Less>;

  void unite(Dimension a, Dimension b);
  /// One dimension that stands for all that agree with it.
  Dimension find(Dimension d) const;

 private:
  Map<Dimension> parent;
};

/// What a kernel reads and writes, once the function's buffers are known.
struct Binding {
  llvm::SmallVector<const BufferInfo*> inputs, outputs; // in the order of the kernel's
  llvm::SmallVector<bool> older; // inputs that are older than the kernel's predecessor
  llvm::function_ref<Extent(Dimension)> extent;
};

/// One kernel as its family understood it.
class Kernel {
 public:
  explicit Kernel(ir::KernelOp op) : op(op) {}
  virtual ~Kernel() = default;

  ir::KernelOp op;

  /// Says which run-time sizes must agree. An error at the kernel where that cannot be.
  virtual llvm::LogicalResult unify(SizeClasses& sizes) = 0;
  virtual void bind(const Binding& binding) = 0;
  /// What its schedules look like; null: it takes none.
  virtual const ScheduleForm* form() const = 0;
  /// What its schedules depend on, with run-time sizes filled in if they are given. Null: it takes
  /// none.
  virtual std::unique_ptr<model::KernelModel> model(llvm::ArrayRef<int64_t> sizes) const = 0;
  /// Appends the kernel, and others that finish its work, to the end of `module` and to the plan.
  virtual void lower(mlir::ModuleOp module, LaunchPlan& plan) = 0;
};

/// What a fused function needs in memory, and its kernels. Families of functions derive from it.
struct FunctionPlan {
  virtual ~FunctionPlan() = default;

  std::deque<BufferInfo> buffers;
  std::vector<std::unique_ptr<Kernel>> kernels;
  LaunchPlan launch; // function, inputs, outputs, intermediate workspaces; no kernels yet
};

class Family {
 public:
  virtual ~Family() = default;
  /// What its schedules look like; null: it takes none.
  virtual const ScheduleForm* form() const { return nullptr; }

  // How its kernels are compared with fp64 before anybody relies on them. What their operands may
  // be, operations say (takesNonNegative in dialect/Kiln.td).
  /// Tails, odd lengths, least alignment: where its kernels go wrong if they do.
  virtual std::vector<Shape> shapes(const ShapeRequest& request) const = 0;
  /// The relative error of a rounding that its kernels do within the operation that gives `result`,
  /// whatever the types in the text, where that is more than fp32's; 0: none is.
  virtual double rounding(mlir::Value result) const { return 0.0; }
  /// Of the tensors of lists, to time its kernels with.
  virtual std::vector<std::int64_t> typicalLengths() const { return {}; }
};

/// A kernel that kiln-fuse considers.
struct Considered {
  mlir::func::FuncOp function;
  ir::KernelOp kernel;
  mlir::ArrayRef<mlir::Value> inputs, results; // in the function
};

/// How much one kernel may be.
struct FusionLimits {
  int operations; // more take as long in two kernels: they take longer than the bytes between them
  const Target& target;
};

class KernelFamily : public Family {
 public:
  /// Whether only this family can execute the operation.
  virtual bool anchors(mlir::Operation* op) const { return false; }
  /// Changes a function, before its operations are grouped, so that anchors can be kernels.
  virtual void prepare(FusionPreparation& preparation) const {}
  /// Null: the refusal says why it cannot be one kernel.
  virtual std::unique_ptr<Kernel> analyze(ir::KernelOp kernel, Refusal& refusal) const = 0;
  /// Empty if it can be one kernel, which is not too much for it if there are limits.
  virtual std::string reasonAgainst(const Considered& considered,
                                    const std::optional<FusionLimits>& limits) const;
};

class FunctionFamily : public Family {
 public:
  virtual bool takes(mlir::func::FuncOp function) const = 0;
  /// Divides the function into kernels.
  virtual llvm::LogicalResult fuse(mlir::func::FuncOp function) const = 0;
  virtual llvm::FailureOr<std::unique_ptr<FunctionPlan>>
  plan(mlir::func::FuncOp function) const = 0;
};

/// All families, and of each kind.
llvm::ArrayRef<const Family*> all();
llvm::ArrayRef<const KernelFamily*> ofKernels();
/// The one that takes the whole function; null: its kernels are planned one by one.
const FunctionFamily* ofFunction(mlir::func::FuncOp function);
/// The one that an operation in the kernel is an anchor of, else the one that takes any kernel.
const KernelFamily& of(ir::KernelOp kernel);
/// The one that executes a kernel or an operation of a function, fused or not.
const Family& executing(mlir::func::FuncOp function, mlir::Operation* op);
/// The word for it in KILN_FAMILIES.
std::string_view nameOf(const Family& family);

/// Loads the dialects of functions and of exit operations, and the forms of schedules.
void registerDialects(mlir::DialectRegistry& registry);

} // namespace kiln::family
