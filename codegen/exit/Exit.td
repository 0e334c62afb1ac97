// The exit dialect `cu`: one operation for each thing that codegen/device/*.cuh offers, so that
// printing decides nothing. Each operation prints itself (Exit.cpp and its neighbours); the bodies of
// cu.each and cu.each_row hold upstream's scalar arith and math.
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
def Cu_Ring : Cu_Type<"Ring", "ring", "stages of shared memory that tiles pass through">;
def Cu_Sums : Cu_Type<"Sums", "sums", "running sums of the columns a thread holds">;
def Cu_Segment : Cu_Type<"Segment", "segment", "the part of a list's entry that a block works on">;
def Cu_Total : Cu_Type<"Total", "total", "a running sum of all a thread has seen">;

class Cu_Op<string mnemonic, list<Trait> traits = []>
    : Op<Cu_Dialect, mnemonic, !listconcat(traits, [DeclareOpInterfaceMethods<ExitOpInterface>])>;

class Cu_RegionOp<string mnemonic, list<Trait> traits = []>
    : Cu_Op<mnemonic, !listconcat(traits, [NoTerminator, SingleBlock])> {
  let regions = (region SizedRegion<1>:$body);
}

//===- Kernels ------------------------------------------------------------------------------===//

def Cu_KernelOp : Cu_RegionOp<"kernel", [IsolatedFromAbove]> {
  let summary = "One entry point of the generated text";
  let description = [{
    The block's arguments are the kernel's; `arguments` names them. `columns` and `schedule` give
    the tile of rows (absent in kernels of other kinds). `header`: the part of the device library
    that it is made of. `shared_bytes` is filled in by kiln-place.
  }];
  let arguments = (ins StrAttr:$name, StrArrayAttr:$arguments, I64Attr:$threads, I64Attr:$blocks,
                       DefaultValuedAttr<I64Attr, "0">:$columns,
                       OptionalAttr<Kiln_ScheduleAttr>:$schedule,
                       DefaultValuedAttr<I64Attr, "0">:$shared_bytes,
                       DefaultValuedAttr<StrAttr, "\"row.cuh\"">:$header);
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
  let summary = "Barrier of the block";
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

def Cu_StageColumnsOp : Cu_Op<"stage_columns"> {
  let summary = "Starts to copy a row that all rows share into shared memory";
  let arguments = (ins Cu_Pointer:$from, I64Attr:$access, I64Attr:$column_stride,
                       DefaultValuedAttr<I64Attr, "0">:$scratch);
  let results = (outs Cu_Columns:$columns);
  let assemblyFormat = "$from attr-dict `:` type($from) `->` type($columns)";
}
def Cu_AwaitCopiesOp : Cu_Op<"await_copies"> {
  let summary = "Waits for the copies that this thread started; a barrier makes them everyone's";
  let assemblyFormat = "attr-dict";
}

//===- Tiles of rows ------------------------------------------------------------------------===//

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

def Cu_PairedOp : Cu_Op<"paired", [Pure]> {
  let summary = "Memory of which each column reads its partner";
  let arguments = (ins Cu_Pointer:$from, Kiln_PairsAttr:$pairs);
  let results = (outs Cu_Pointer:$paired);
  let assemblyFormat = "$from $pairs attr-dict `:` type($from) `->` type($paired)";
}

def Cu_TilesOp : Cu_RegionOp<"tiles"> {
  let summary = "Works through tiles of rows: one a block, or as many as there are";
  let arguments = (ins I64:$rows, BoolAttr:$once);
  let assemblyFormat = "$rows attr-dict-with-keyword $body";
}

def Cu_LoadOp : Cu_Op<"load"> {
  let summary = "Loads a tile into registers or, behind await_copies, shared memory; or only names it";
  let arguments = (ins Cu_Tile:$tile, Cu_Pointer:$from, Cu_Map:$map, I64Attr:$access,
                       Kiln_KeepAttr:$keep, DefaultValuedAttr<I64Attr, "0">:$scratch,
                       DefaultValuedAttr<I64Attr, "1">:$parts);
  let description = "`parts`: groups of copies into shared memory, each awaited apart.";
  let results = (outs Cu_Fragment:$fragment);
  let assemblyFormat = [{
    $tile `,` $from `,` $map attr-dict `:` type($from) `->` type($fragment)
  }];
}
def Cu_LoadRowsOp : Cu_Op<"load_rows"> {
  let summary = "Loads one value a row";
  let arguments = (ins Cu_Tile:$tile, Cu_Pointer:$from, Cu_Map:$map);
  let results = (outs Cu_Rows:$values);
  let assemblyFormat = "$tile `,` $from `,` $map attr-dict `:` type($from) `->` type($values)";
}
def Cu_PickRowsOp : Cu_Op<"pick_rows"> {
  let summary = "Loads one element a row, chosen by its index";
  let arguments = (ins Cu_Tile:$tile, Cu_Pointer:$from, Cu_Map:$map, Cu_Rows:$index);
  let results = (outs Cu_Rows:$values);
  let assemblyFormat = [{
    $tile `,` $from `,` $map `,` $index attr-dict `:` type($from) `,` type($index) `->`
    type($values)
  }];
}
def Cu_GatherOp : Cu_Op<"gather"> {
  let summary = "Loads rows of a table of `count` rows by their numbers; or only names them";
  let arguments = (ins Cu_Tile:$tile, Cu_Pointer:$table, Cu_Rows:$index, I64:$count, I64:$stride,
                       I64Attr:$column_stride, I64Attr:$access, Kiln_KeepAttr:$keep,
                       DefaultValuedAttr<I64Attr, "0">:$scratch);
  let results = (outs Cu_Fragment:$fragment);
  let assemblyFormat = [{
    $tile `,` $table `,` $index `,` $count `,` $stride attr-dict `:` type($table) `,` type($index)
    `->` type($fragment)
  }];
}
def Cu_RandomOp : Cu_Op<"random"> {
  let summary = "A tile of random numbers, computed where it is read; the map tells their places";
  let arguments = (ins Cu_Tile:$tile, Cu_Map:$map, I64:$seed, I64:$offset, I64Attr:$bits);
  let results = (outs Cu_Fragment:$fragment);
  let assemblyFormat = [{
    $tile `,` $map `,` $seed `,` $offset attr-dict `->` type($fragment)
  }];
}
def Cu_RandomRowsOp : Cu_Op<"random_rows"> {
  let summary = "One random number a row";
  let arguments = (ins Cu_Tile:$tile, Cu_Map:$map, I64:$seed, I64:$offset, I64Attr:$bits);
  let results = (outs Cu_Rows:$values);
  let assemblyFormat = "$tile `,` $map `,` $seed `,` $offset attr-dict `->` type($values)";
}
def Cu_LoadUniformOp : Cu_Op<"load_uniform"> {
  let summary = "Loads the one value of a tensor without dimensions";
  let arguments = (ins Cu_Pointer:$from);
  let results = (outs AnyType:$value);
  let assemblyFormat = "$from attr-dict `:` type($from) `->` type($value)";
}
def Cu_KeepOp : Cu_Op<"keep"> {
  let summary = "Room for a computed tile";
  let arguments = (ins Kiln_KeepAttr:$keep, DefaultValuedAttr<I64Attr, "0">:$scratch);
  let results = (outs Cu_Fragment:$fragment);
  let assemblyFormat = "attr-dict `:` type($fragment)";
}
def Cu_RowAccumulatorOp : Cu_Op<"row_accumulator"> {
  let summary = "One running value a row";
  let arguments = (ins Kiln_ReduceKindAttr:$kind);
  let results = (outs Cu_Rows:$values);
  let assemblyFormat = "attr-dict `:` type($values)";
}
def Cu_ColumnSumsOp : Cu_Op<"column_sums"> {
  let summary = "Running sums down the columns, zero at first";
  let results = (outs Cu_Sums:$sums);
  let assemblyFormat = "attr-dict";
}
def Cu_TotalOp : Cu_Op<"total"> {
  let summary = "A running sum over everything, zero at first";
  let results = (outs Cu_Total:$sum);
  let assemblyFormat = "attr-dict";
}

def Cu_EachOp : Cu_RegionOp<"each"> {
  let summary = "Computes on each element of the tile";
  let description = [{
    The block's arguments stand for the current element of the inputs: of a fragment, of a
    pointer or of staged columns (a row that is the same for all rows; `access` and `column_strides` have an entry for
    each input), or the value of the row.
    `guard_rows`: rows past the end are left out (they must not reach a column sum).
  }];
  let arguments = (ins Cu_Tile:$tile, Variadic<AnyType>:$inputs, DenseI64ArrayAttr:$access,
                       DenseI64ArrayAttr:$column_strides, BoolAttr:$guard_rows);
  let assemblyFormat = [{
    $tile `,` `(` ($inputs^ `:` type($inputs))? `)` attr-dict-with-keyword $body
  }];
}
def Cu_CombineTileOp : Cu_Op<"combine_tile"> {
  let summary = "The largest or smallest elements of a kept tile's rows";
  let description = [{
    Elements are compared as they lie in memory, those of 2 bytes in pairs. Sums are not for it: they
    are taken in fp32.
  }];
  let arguments = (ins Kiln_ReduceKindAttr:$kind, Cu_Tile:$tile, Cu_Fragment:$fragment,
                       Cu_Rows:$into);
  let assemblyFormat = [{
    $kind $tile `,` $fragment `into` $into attr-dict `:` type($fragment) `,` type($into)
  }];
}
def Cu_CombineExponentialsOp : Cu_Op<"combine_exponentials"> {
  let summary = "A thread's largest element of each row, and its sum of exp(element - largest)";
  let description = [{
    In one pass, part by part as the tile arrives: it waits for the tile's copies.
  }];
  let arguments = (ins Cu_Tile:$tile, Cu_Fragment:$fragment, Cu_Rows:$largest, Cu_Rows:$sum,
                       I64Attr:$parts);
  let assemblyFormat = [{
    $tile `,` $fragment `into` $largest `,` $sum attr-dict `:` type($fragment) `,` type($largest)
    `,` type($sum)
  }];
}
def Cu_EachRowOp : Cu_RegionOp<"each_row"> {
  let summary = "Computes on the values of each row";
  let arguments = (ins Variadic<AnyType>:$inputs);
  let assemblyFormat = "`(` ($inputs^ `:` type($inputs))? `)` attr-dict-with-keyword $body";
}

//===- Inside cu.each and cu.each_row -------------------------------------------------------===//

def Cu_ColumnOp : Cu_Op<"column", [Pure]> {
  let summary = "The column of the current element";
  let arguments = (ins Cu_Tile:$tile);
  let results = (outs AnyTypeOf<[I32, I64]>:$column);
  let assemblyFormat = "$tile attr-dict `:` type($column)";
}
def Cu_RowOp : Cu_Op<"row", [Pure]> {
  let summary = "The index of the current row";
  let arguments = (ins Cu_Tile:$tile);
  let results = (outs AnyTypeOf<[I32, I64]>:$row);
  let assemblyFormat = "$tile attr-dict `:` type($row)";
}
def Cu_AccumulateOp : Cu_Op<"accumulate"> {
  let summary = "Adds the current element to running sums, of its row, its column, or all";
  let arguments = (ins AnyType:$value, AnyType:$into);
  let assemblyFormat = "$value `into` $into attr-dict `:` type($value) `,` type($into)";
}
def Cu_AccumulateRowOp : Cu_Op<"accumulate_row"> {
  let summary = "Adds the value of the current row to a running sum, once a row";
  let arguments = (ins AnyType:$value, Cu_Tile:$tile, Cu_Total:$into);
  let assemblyFormat = "$value `,` $tile `into` $into attr-dict `:` type($value)";
}
def Cu_SetOp : Cu_Op<"set"> {
  let summary = "The current element of a kept tile";
  let arguments = (ins AnyType:$value, Cu_Fragment:$fragment);
  let assemblyFormat = "$value `,` $fragment attr-dict `:` type($value) `,` type($fragment)";
}
def Cu_SetRowOp : Cu_Op<"set_row"> {
  let summary = "The value of the current row";
  let arguments = (ins AnyType:$value, Cu_Rows:$rows);
  let assemblyFormat = "$value `,` $rows attr-dict `:` type($value) `,` type($rows)";
}
def Cu_PutOp : Cu_Op<"put"> {
  let summary = "The current element of a result; stored a vector at a time, rounded to its type";
  let arguments = (ins AnyType:$value, Cu_Pointer:$to, Cu_Map:$map, I64Attr:$access);
  let assemblyFormat = "$value `,` $to `,` $map attr-dict `:` type($value) `,` type($to)";
}
def Cu_RowsOp : Cu_Op<"rows"> {
  let summary = "Room for one computed value a row";
  let results = (outs Cu_Rows:$values);
  let assemblyFormat = "attr-dict `:` type($values)";
}

//===- Reductions and results ---------------------------------------------------------------===//

def Cu_RowReduceOp : Cu_Op<"row_reduce"> {
  let summary = "Combines the lanes of each row, in place";
  let arguments = (ins Cu_Tile:$tile, Variadic<Cu_Rows>:$values, Kiln_ReduceKindAttr:$kind,
                       DefaultValuedAttr<I64Attr, "0">:$scratch);
  let assemblyFormat = "$tile `,` $values attr-dict `:` type($values)";
}
def Cu_StageRowsOp : Cu_Op<"stage_rows"> {
  let summary = "Lays values of rows out in shared memory for store_rows, behind a barrier";
  let arguments = (ins Cu_Tile:$tile, Variadic<Cu_Rows>:$values,
                       DefaultValuedAttr<I64Attr, "0">:$scratch);
  let assemblyFormat = "$tile `,` $values attr-dict `:` type($values)";
}
def Cu_StoreRowsOp : Cu_Op<"store_rows", [AttrSizedOperandSegments]> {
  let summary = "Stores values that stage_rows laid out, the i-th by the i-th map and pointer";
  let arguments = (ins Cu_Tile:$tile, Variadic<Cu_Rows>:$values, Variadic<Cu_Pointer>:$to,
                       Variadic<Cu_Map>:$maps, DefaultValuedAttr<I64Attr, "0">:$scratch);
  let assemblyFormat = [{
    $tile `,` `(` $values `)` `,` `(` $to `)` `,` `(` $maps `)` attr-dict `:` type($values) `to`
    type($to)
  }];
}
def Cu_StoreColumnsOp : Cu_Op<"store_columns"> {
  let summary = "Adds the block's column sums and stores them in its line of the partial sums";
  let arguments = (ins Cu_Sums:$sums, Cu_Pointer:$partials, I64:$rows, I64Attr:$width,
                       I64Attr:$first, DefaultValuedAttr<I64Attr, "0">:$scratch);
  let assemblyFormat = "$sums `,` $partials `,` $rows attr-dict `:` type($partials)";
}
def Cu_StoreTotalOp : Cu_Op<"store_total"> {
  let summary = "Adds the block's totals and stores them in its line of the partial sums";
  let arguments = (ins Cu_Total:$sum, Cu_Pointer:$partials, I64:$rows, I64Attr:$width,
                       I64Attr:$first, DefaultValuedAttr<I64Attr, "0">:$scratch);
  let assemblyFormat = "$sum `,` $partials `,` $rows attr-dict `:` type($partials)";
}
def Cu_SumPartialsOp : Cu_Op<"sum_partials"> {
  let summary = "Adds the lines of the partial sums, 32 columns a block";
  let arguments = (ins Cu_Pointer:$partials, I64:$lines, I64Attr:$width, I64Attr:$stride,
                       I64Attr:$threads, DefaultValuedAttr<I64Attr, "0">:$scratch);
  let results = (outs F32:$total);
  let assemblyFormat = "$partials `,` $lines attr-dict `:` type($partials)";
}
def Cu_FinishColumnsOp : Cu_Op<"finish_columns"> {
  let summary = "Stores the totals of some of the columns";
  let arguments = (ins F32:$total, Cu_Pointer:$to, I64Attr:$first, I64Attr:$columns);
  let assemblyFormat = "$total `,` $to attr-dict `:` type($to)";
}

include "Lists.td"
include "Ring.td"
include "Sums.td"
include "Turned.td"

#endif
