// The exit dialect `cu`: one operation for each thing that codegen/device/*.cuh offers, so that
// printing decides nothing. Each operation prints itself. Here are types, interfaces, and what kernels
// of all families have; a family's own operations are in its Exit.td.
#ifndef KILN_CODEGEN_EXIT_TD
#define KILN_CODEGEN_EXIT_TD

include "dialect/Attributes.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Cu_Dialect : Dialect {
  let name = "cu";
  let cppNamespace = "::kiln::cu";
  let summary = "CUDA kernels, made of the pieces of the device library";
  let useDefaultTypePrinterParser = 1;
  let usePropertiesForAttributes = 1;
}

def ExitOpInterface : OpInterface<"ExitOpInterface"> {
  let cppNamespace = "::kiln::cu";
  let methods = [
    InterfaceMethod<"Prints the operation as CUDA C++.", "void", "emit",
                    (ins "::kiln::Emitter &":$emitter)>,
    InterfaceMethod<"Whether it stores through a pointer.", "bool", "stores",
                    (ins "::mlir::Value":$pointer), "", "return false;">,
  ];
}

// kiln-place gives places to whatever asks for shared memory, in the order of what it is used for and
// then of the program. What is used for tiles, exchanges and results of a loop stays apart, since each
// run of the loop needs all of it; an epilogue comes when all that is over, and begins at 0. The place,
// the offset of the first byte, is the attribute `scratch`.
def Cu_SharedMemoryOp : OpInterface<"SharedMemoryOp"> {
  let cppNamespace = "::kiln::cu";
  let methods = [
    InterfaceMethod<"Bytes of shared memory that it needs.", "int64_t", "sharedBytes">,
    InterfaceMethod<"What it needs them for.", "::kiln::cu::SharedUse", "sharedUse">,
  ];
}
// A loop whose operations reuse their shared memory in every run.
def Cu_LoopOp : OpInterface<"LoopOp"> {
  let cppNamespace = "::kiln::cu";
  let methods = [
    InterfaceMethod<"Puts barriers between uses of one place where nothing else brings them. All "
                    "places are known.", "void", "separateUses">,
  ];
}

class Cu_Type<string cppName, string typeMnemonic, string text> : TypeDef<Cu_Dialect, cppName> {
  let mnemonic = typeMnemonic;
  let summary = text;
}
class Cu_ElementType<string cppName, string typeMnemonic, string text>
    : Cu_Type<cppName, typeMnemonic, text> {
  let parameters = (ins "::mlir::Type":$element);
  let assemblyFormat = "`<` $element `>`";
}
def Cu_Pointer : Cu_ElementType<"Pointer", "ptr", "pointer into global memory">;
def Cu_Fragment : Cu_ElementType<"Fragment", "frag", "a thread's part of a tile of rows">;
def Cu_Columns : Cu_ElementType<"Columns", "columns", "a row that all rows share, in shared memory">;
def Cu_Rows : Cu_ElementType<"Rows", "rows", "one value for each row of a thread">;
def Cu_Tile : Cu_Type<"Tile", "tile", "the rows a block works on">;
def Cu_Map : Cu_Type<"Map", "map", "where rows begin in memory">;
def Cu_TensorMap : Cu_Type<"TensorMap", "tensor_map", "how bulk copies see a tensor">;
def Cu_Ring : Cu_Type<"Ring", "ring", "stages of shared memory that tiles pass through">;
def Cu_Sums : Cu_Type<"Sums", "sums", "running sums of the columns a thread holds">;
def Cu_Segment : Cu_Type<"Segment", "segment", "the part of a list's entry that a block works on">;
def Cu_Segments : Cu_Type<"Segments", "segments", "all such parts that a block works on">;
def Cu_Total : Cu_Type<"Total", "total", "a running sum of all a thread has seen">;

class Cu_Op<string mnemonic, list<Trait> traits = []>
    : Op<Cu_Dialect, mnemonic, !listconcat(traits, [DeclareOpInterfaceMethods<ExitOpInterface>])>;

class Cu_StoringOp<string mnemonic, list<Trait> traits = []>
    : Op<Cu_Dialect, mnemonic,
         !listconcat(traits, [DeclareOpInterfaceMethods<ExitOpInterface, ["stores"]>])>;
def Cu_InSharedMemory : DeclareOpInterfaceMethods<Cu_SharedMemoryOp>;

class Cu_RegionOp<string mnemonic, list<Trait> traits = []>
    : Cu_Op<mnemonic, !listconcat(traits, [NoTerminator, SingleBlock])> {
  let regions = (region SizedRegion<1>:$body);
}

//===- Kernels ------------------------------------------------------------------------------===//

def Cu_KernelOp : Cu_RegionOp<"kernel", [IsolatedFromAbove]> {
  let summary = "One entry point of the generated text";
  let description = [{
    The block's arguments are the kernel's; `arguments` names them. `schedule` is what it was made
    for. `prologue` is a line that stands first in the text. `header`: the part of the device library
    that it is made of. `shared_bytes` is filled in by kiln-place.
  }];
  let arguments = (ins StrAttr:$name, StrArrayAttr:$arguments, I64Attr:$threads, I64Attr:$blocks,
                       DefaultValuedAttr<I64Attr, "0">:$columns,
                       OptionalAttr<Kiln_ScheduleAttr>:$schedule,
                       DefaultValuedAttr<I64Attr, "0">:$shared_bytes,
                       DefaultValuedAttr<StrAttr, "\"row.cuh\"">:$header,
                       DefaultValuedAttr<StrAttr, "\"\"">:$prologue);
  let assemblyFormat = "$name attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def Cu_WaitOp : Cu_Op<"wait"> {
  let summary = "Waits until what the previous kernel wrote is visible";
  let assemblyFormat = "attr-dict";
}
def Cu_ReleaseOp : Cu_Op<"release"> {
  let summary = "Lets the next kernel start";
  let assemblyFormat = "attr-dict";
}
def Cu_BarrierOp : Cu_Op<"barrier"> {
  let summary = "Barrier of the block, or of its threads that work on a tile";
  let arguments = (ins UnitAttr:$of_tile);
  let assemblyFormat = "attr-dict";
}

def Cu_ClusterArriveOp : Cu_Op<"cluster_arrive"> {
  let summary = "Tells the blocks of the cluster that this one has come here";
  let assemblyFormat = "attr-dict";
}
def Cu_ClusterWaitOp : Cu_Op<"cluster_wait"> {
  let summary = "Waits until all blocks of the cluster have arrived";
  let assemblyFormat = "attr-dict";
}

def Cu_AwaitCopiesOp : Cu_Op<"await_copies"> {
  let summary = "Waits for the copies that this thread started; a barrier makes them everyone's";
  let assemblyFormat = "attr-dict";
}

//===- Maps ---------------------------------------------------------------------------------===//

def Cu_RowMapOp : Cu_Op<"row_map", [Pure, AttrSizedOperandSegments]> {
  let summary = "Sizes and strides of the leading dimensions";
  let description = [{
    -1 in `sizes`, `strides` and `column_stride` stands for the next run-time operand.
  }];
  let arguments = (ins DenseI64ArrayAttr:$sizes, DenseI64ArrayAttr:$strides,
                       I64Attr:$column_stride, Variadic<I64>:$run_time_sizes,
                       Variadic<I64>:$run_time_strides);
  let results = (outs Cu_Map:$map);
  let assemblyFormat = [{
    `sizes` $sizes `(` $run_time_sizes `)` `strides` $strides `(` $run_time_strides `)`
    `columns` $column_stride attr-dict
  }];
}

#endif
