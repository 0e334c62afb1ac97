// The kiln dialect: what a kernel computes, on tensors, without saying how.
#ifndef KILN_DIALECT_KILN_TD
#define KILN_DIALECT_KILN_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Kiln_Dialect : Dialect {
  let name = "kiln";
  let cppNamespace = "::kiln::ir";
  let summary = "Row-wise and tiled tensor math for training kernels";
  let description = [{
    Named operations on ranked tensors, next to `arith` and `math` on tensors for scalar math.
    The last dimension is the row and has a static size; leading dimensions may be dynamic
    (`?`) and are given at run time. Named operations accept bf16, fp16 and fp32, and compute
    in fp32.

    A function argument or result may carry `kiln.layout` to say how it lies in memory
    (default: contiguous, 16-byte aligned; without dimensions, aligned to its element) and
    `kiln.name` to name it in generated code.

    `kiln.list` on an argument or result of type `tensor<?xT>` makes it a list: as many tensors as
    are given at run time, each with a length of its own. All lists of a function have the same
    lengths, entry by entry; what is no list has no dimensions and is shared by all entries.
    `kiln.reduce sum` of a list is the sum over all elements of all its tensors. With a number,
    `kiln.list = 1`, the list belongs to that part of the function (`kiln.list` alone: to part 0).
    Lists of different parts have lengths of their own and meet in no operation but through sums,
    and one launch works on all parts.

    What becomes one kernel is chosen by the bytes and launches that it saves. Two attributes of an
    operation, named or of `arith` and `math`, overrule that choice. `kiln.cut`: its results are
    always stored, and nothing that reads them is in its kernel (a broadcast, index or random number
    is then stored too, instead of made again by each reader). `kiln.fuse = "name"`: it is in one
    kernel with all others of that name; where the family of kernels cannot, that is an error.
    Derived functions (a backward) start without them.

    Another attribute with the dialect's name is an error, and so is one without a dialect's name on
    an operation that does not have it: a misspelt request would do nothing.

    ```mlir
    %a = math.exp %x {kiln.cut} : tensor<?x8xf32>
    %s = kiln.reduce sum %a dims [1] {kiln.fuse = "tail"} : tensor<?x8xf32> -> tensor<?xf32>
    ```
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
    /// For operations that the dialect does not have: says which it has.
    std::optional<ParseOpHook> getParseOperationHook(::llvm::StringRef name) const override;
  }];
}

// What every named operation tells about itself, each in its own file ops/<Name>.cpp.
def KilnOpInterface : OpInterface<"KilnOpInterface"> {
  let cppNamespace = "::kiln::ir";
  let methods = [
    InterfaceMethod<"Computes the results in fp64 from fp64 operands, straight from the formula.",
      "void", "reference",
      (ins "::llvm::ArrayRef<const ::kiln::ir::Tensor64 *>":$inputs,
           "::llvm::MutableArrayRef<::kiln::ir::Tensor64>":$results)>,
    InterfaceMethod<"Adds the gradients of the operands, given those of the results.",
      "::llvm::LogicalResult", "gradient", (ins "::kiln::ir::Gradient &":$gradient)>,
    InterfaceMethod<"Writes the operation as scalar math, reductions and broadcasts; "
                    "gives the values that replace its results (none: it is elementary).",
      "::llvm::SmallVector<::mlir::Value>", "decompose", (ins "::kiln::ir::MathBuilder &":$math),
      "", "return {};">,
    InterfaceMethod<"Is it cheaper to make than to load? Each kernel that uses it then makes its own.",
      "bool", "isRematerializable", (ins), "", "return false;">,
    InterfaceMethod<"Does it cost more to compute again than to load? A backward then reads the "
                    "results that the forward saved.",
      "bool", "isSaved", (ins), "", "return false;">,
    InterfaceMethod<"What numbers it takes an operand for, beyond their type.",
      "::kiln::ir::NumbersTaken", "numbersTaken", (ins "unsigned":$operand), "", "return {};">,
    InterfaceMethod<"Lets reference() compute a row of so many only, spread over all, and give NaN "
                    "for the others: where all of them would take hours. The number is odd. "
                    "False: it computes all.",
      "bool", "sample", (ins "int64_t":$step), "", "return false;">,
    InterfaceMethod<"Lets reference() move what it rounds on the way by random relative errors of so "
                    "much. False: it does not, and only its results can be moved.",
      "bool", "perturb", (ins "double":$unit, "uint64_t":$seed), "", "return false;">,
    InterfaceMethod<"The operand whose run-time sizes the result has, which a kernel need not read.",
      "::mlir::Value", "shapeSource", (ins), "", "return {};">,
    StaticInterfaceMethod<"The function that does nothing but this operation, by a shape and "
                          "settings; null: there is none, write your own.",
      "const ::kiln::ir::OpFunction *", "asFunction", (ins), "", "return nullptr;">,
  ];
}

def Kiln_Float : AnyTypeOf<[F32, BF16, F16, F64]>;
def Kiln_Element : AnyTypeOf<[F32, BF16, F16, F64, I1, I32, I64]>;
def Kiln_FloatTensor : RankedTensorOf<[F32, BF16, F16, F64]>;
def Kiln_BoolTensor : RankedTensorOf<[I1]>;
def Kiln_IndexTensor : RankedTensorOf<[I32, I64]>;
// One number that is known at run time.
def Kiln_SeedTensor : TensorRankOf<[I64], [0]>,
    BuildableType<"::mlir::RankedTensorType::get({}, $_builder.getI64Type())">;
def Kiln_Tensor : RankedTensorOf<[F32, BF16, F16, F64, I1, I32, I64]>;

def Kiln_OwnAttributes : NativeOpTrait<"OwnAttributes"> { let cppNamespace = "::kiln::ir"; }
class Kiln_Op<string mnemonic, list<Trait> traits = []>
    : Op<Kiln_Dialect, mnemonic, !listconcat([Kiln_OwnAttributes], traits)>;

// A named operation: pure, with names for its results, and the interface above.
class Kiln_NamedOp<string mnemonic, list<Trait> traits = []>
    : Kiln_Op<mnemonic, !listconcat(traits, [Pure,
        DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>,
        DeclareOpInterfaceMethods<KilnOpInterface, ["decompose"]>])> {
  let hasVerifier = 1;
  string function = ""; // a pattern of RowFunction
  let extraClassDeclaration = [{
    static const ::kiln::ir::OpFunction *asFunction() {
      static constexpr ::kiln::ir::RowFunction function(R"(}] # function # [{)");
      return function.orNone();
    }
  }];
}
// The same for operations that the row family executes as they are.
class Kiln_ElementaryOp<string mnemonic, list<Trait> traits = []>
    : Kiln_Op<mnemonic, !listconcat(traits, [Pure,
        DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>,
        DeclareOpInterfaceMethods<KilnOpInterface>])> {
  let hasVerifier = 1;
}
// The same for those that every kernel makes for itself.
class Kiln_FreeOp<string mnemonic, list<Trait> traits = []>
    : Kiln_ElementaryOp<mnemonic, traits> {
  let extraClassDeclaration = [{ bool isRematerializable() { return true; } }];
}

#endif
