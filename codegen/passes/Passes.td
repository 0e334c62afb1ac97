// The passes of the compiler, in the order in which they run. One file each.
#ifndef KILN_CODEGEN_PASSES_TD
#define KILN_CODEGEN_PASSES_TD

include "mlir/Pass/PassBase.td"

class Kiln_Pass<string name, string op> : Pass<name, op> {
  let dependentDialects = ["::kiln::ir::KilnDialect", "::kiln::cu::CuDialect",
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::func::FuncDialect"];
}

def Canonicalize : Kiln_Pass<"kiln-canonicalize", "::mlir::ModuleOp"> {
  let constructor = "::kiln::passes::createCanonicalize()";
  let summary = "Folds operations, merges equal ones, removes unused ones";
}
def Differentiate : Kiln_Pass<"kiln-differentiate", "::mlir::ModuleOp"> {
  let constructor = "::kiln::passes::createDifferentiate()";
  let summary = "Derives the backward of a function";
  let description = [{
    For `@f` adds `@f_backward`, which takes what it needs of f's arguments and results, values
    that f must save, and the gradients of f's results, and returns the gradients of f's
    floating-point arguments; and `@f_forward`, which returns the saved values after f's results
    (only if there are any). What is saved and what is computed again is the cheapest cut by
    bytes; row reductions are never computed again. Arguments and results marked
    `kiln.gradient = false` have no gradient. Arguments of f that the backward reads are marked
    `kiln.older`, unless `older = false`: what a launch promises that reads them ahead.

    With `together` it adds one function instead, `@f_with_gradient`: it takes f's arguments and
    the gradients of f's results, and returns f's results and the gradients of its arguments. A
    loss, of whose result the gradient is known beforehand, becomes one kernel that way.
  }];
  let options = [Option<"function", "function", "std::string", "",
                        "name of the function (default: the only one)">,
                 Option<"together", "together", "bool", "false",
                        "one function with forward and backward">,
                 Option<"older", "older", "bool", "true",
                        "what the forward reads is older than the launch before the backward">];
}
def Fuse : Kiln_Pass<"kiln-fuse", "::mlir::ModuleOp"> {
  let constructor = "::kiln::passes::createFuse()";
  let summary = "Groups operations into kernels";
  let description = [{
    Merges neighbours, those first that save most bytes, as long as the family can still
    execute the group, some schedule of it fits the target, and it is not so large that compiling
    takes long: what does not fit one kernel becomes several. A function of more than 256 operations
    begins with runs of neighbours in the text instead of single ones, so that the time grows with
    its length. Every merge that would save bytes and
    is refused leaves a remark at both operations. A `kiln.kernel` that the text already has stays
    as it is.

    `kiln.cut` on an operation: its results are stored, and nothing that reads them is in its
    kernel; the merge that this prevents leaves its remark. `kiln.fuse = "name"`: all operations of
    that name are one kernel, or it is an error.
    A sum over some of the leading dimensions reads its rows from memory and so is a kernel of its
    own, with at most a widening before it and a rounding behind.

    A function over lists of tensors becomes one kernel, and one more for each sum over lists that
    others of its operations depend on. Lists of all parts share these kernels.
  }];
  let options = [Option<"arch", "arch", "std::string", "\"sm_90a\"", "the target">,
                 Option<"most", "most", "int", "320", "operations of a kernel">];
}
def Schedule : Kiln_Pass<"kiln-schedule", "::mlir::ModuleOp"> {
  let constructor = "::kiln::passes::createSchedule()";
  let summary = "Gives every kernel a schedule";
  let description = [{
    The user's, where `schedule` gives one, for all kernels or as a dictionary by their names; else
    the one that the cost model predicts to be fastest. A kernel that has a schedule keeps it.
  }];
  let options = [Option<"schedule", "schedule", "std::string", "",
                        "text of a #kiln.schedule for every kernel, or {kiln_f = #kiln.schedule<...>, ...}">,
                 ListOption<"sizes", "sizes", "int64_t",
                            "run-time sizes to choose for, the last one for all that follow (default: usual ones)">,
                 ListOption<"spilled", "spilled", "std::string",
                            "entry point=registers: so many a thread were too few for that kernel">,
                 Option<"arch", "arch", "std::string", "\"sm_90a\"", "the target">];
}
def VerifySchedule : Kiln_Pass<"kiln-verify-schedule", "::mlir::ModuleOp"> {
  let constructor = "::kiln::passes::createVerifySchedule()";
  let summary = "Checks schedules against the target's limits";
  let options = [Option<"arch", "arch", "std::string", "\"sm_90a\"", "the target">];
}
def Lower : Kiln_Pass<"kiln-lower", "::mlir::ModuleOp"> {
  let constructor = "::kiln::passes::createLower()";
  let summary = "Turns kernels into exit operations, and writes the launch plan";
  let options = [Option<"function", "function", "std::string", "",
                        "name of the function (default: the only one)">];
}
def Place : Kiln_Pass<"kiln-place", "::mlir::ModuleOp"> {
  let constructor = "::kiln::passes::createPlace()";
  let summary = "Gives shared memory its places, and barriers where one is needed";
}
def Prepare : Kiln_Pass<"kiln-prepare", "::mlir::ModuleOp"> {
  let constructor = "::kiln::passes::createPrepare()";
  let summary = "Tidies the exit operations; the last pass that changes anything";
}

#endif
