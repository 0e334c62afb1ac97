// Tiles of rows: what codegen/device/row.cuh, ring.cuh and transpose.cuh offer. The bodies of cu.each
// and cu.each_row hold upstream's scalar arith and math.

def Cu_StageColumnsOp : Cu_Op<"stage_columns", [Cu_InSharedMemory]> {
  let summary = "Starts to copy a row that all rows share into shared memory";
  let description = [{
    `rows`: their number, where vectors overlap the ends of rows: the copy is shifted as the rows
    are that a thread works on.
  }];
  let arguments = (ins Cu_Pointer:$from, Optional<I64>:$rows, I64Attr:$access,
                       I64Attr:$column_stride);
  let results = (outs Cu_Columns:$columns);
  let assemblyFormat = [{
    $from (`shifted` `by` $rows^)? attr-dict `:` type($from) `->` type($columns)
  }];
}

def Cu_HoldColumnsOp : Cu_Op<"hold_columns"> {
  let summary = "Loads what a thread has of a row that all rows share into its registers";
  let description = "Of `rows` rows a thread has the same columns of each that it works on.";
  let arguments = (ins Cu_Pointer:$from, I64:$rows, I64Attr:$column_stride);
  let results = (outs Cu_Columns:$columns);
  let assemblyFormat = "$from `,` $rows attr-dict `:` type($from) `->` type($columns)";
}

//===- Tiles of rows ------------------------------------------------------------------------===//

def Cu_PairedOp : Cu_Op<"paired", [Pure]> {
  let summary = "Memory of which each column reads its partner";
  let arguments = (ins Cu_Pointer:$from, Kiln_PairsAttr:$pairs);
  let results = (outs Cu_Pointer:$paired);
  let assemblyFormat = "$from $pairs attr-dict `:` type($from) `->` type($paired)";
}

def Cu_TilesOp : Cu_RegionOp<"tiles", [DeclareOpInterfaceMethods<Cu_LoopOp>]> {
  let summary = "Works through tiles of rows: one a block, or as many as there are";
  let arguments = (ins I64:$rows, BoolAttr:$once, DefaultValuedAttr<I64Attr, "1">:$cluster);
  let assemblyFormat = "$rows attr-dict-with-keyword $body";
}

def Cu_LoadOp : Cu_Op<"load", [Cu_InSharedMemory]> {
  let summary = "Loads a tile into registers or, behind await_copies, shared memory; or only names it";
  let arguments = (ins Cu_Tile:$tile, Cu_Pointer:$from, Cu_Map:$map, I64Attr:$access,
                       Kiln_KeepAttr:$keep, DefaultValuedAttr<I64Attr, "1">:$parts);
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
def Cu_GatherOp : Cu_Op<"gather", [Cu_InSharedMemory]> {
  let summary = "Loads rows of a table of `count` rows by their numbers; or only names them";
  let arguments = (ins Cu_Tile:$tile, Cu_Pointer:$table, Cu_Rows:$index, I64:$count, I64:$stride,
                       I64Attr:$column_stride, I64Attr:$access, Kiln_KeepAttr:$keep);
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
def Cu_KeepOp : Cu_Op<"keep", [Cu_InSharedMemory]> {
  let summary = "Room for a computed tile";
  let arguments = (ins Kiln_KeepAttr:$keep);
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
def Cu_PutOp : Cu_StoringOp<"put"> {
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

def Cu_RowReduceOp : Cu_Op<"row_reduce", [Cu_InSharedMemory]> {
  let summary = "Combines the lanes of each row, in place";
  let arguments = (ins Cu_Tile:$tile, Variadic<Cu_Rows>:$values, Kiln_ReduceKindAttr:$kind);
  let assemblyFormat = "$tile `,` $values attr-dict `:` type($values)";
}
def Cu_StageRowsOp : Cu_Op<"stage_rows", [Cu_InSharedMemory]> {
  let summary = "Lays values of rows out in shared memory for store_rows, behind a barrier";
  let arguments = (ins Cu_Tile:$tile, Variadic<Cu_Rows>:$values);
  let assemblyFormat = "$tile `,` $values attr-dict `:` type($values)";
}
def Cu_StoreRowsOp : Cu_StoringOp<"store_rows", [AttrSizedOperandSegments]> {
  let summary = "Stores values that stage_rows laid out, the i-th by the i-th map and pointer";
  let arguments = (ins Cu_Tile:$tile, Variadic<Cu_Rows>:$values, Variadic<Cu_Pointer>:$to,
                       Variadic<Cu_Map>:$maps);
  let assemblyFormat = [{
    $tile `,` `(` $values `)` `,` `(` $to `)` `,` `(` $maps `)` attr-dict `:` type($values) `to`
    type($to)
  }];
  let hasVerifier = 1;
}
def Cu_StoreColumnsOp : Cu_StoringOp<"store_columns", [Cu_InSharedMemory]> {
  let summary = "Adds the block's column sums and stores them in its line of the partial sums";
  let arguments = (ins Cu_Sums:$sums, Cu_Pointer:$partials, I64:$rows, I64Attr:$width,
                       I64Attr:$first);
  let assemblyFormat = "$sums `,` $partials `,` $rows attr-dict `:` type($partials)";
}
def Cu_StoreTotalOp : Cu_StoringOp<"store_total", [Cu_InSharedMemory]> {
  let summary = "Adds the block's totals and stores them in its line of the partial sums";
  let arguments = (ins Cu_Total:$sum, Cu_Pointer:$partials, I64:$rows, I64Attr:$width,
                       I64Attr:$first);
  let assemblyFormat = "$sum `,` $partials `,` $rows attr-dict `:` type($partials)";
}
def Cu_SumPartialsOp : Cu_Op<"sum_partials", [Cu_InSharedMemory]> {
  let summary = "Adds the lines of the partial sums, so many columns a block";
  let arguments = (ins Cu_Pointer:$partials, I64:$lines, I64Attr:$width, I64Attr:$stride,
                       I64Attr:$threads, DefaultValuedAttr<I64Attr, "32">:$of_block);
  let results = (outs F32:$total);
  let assemblyFormat = "$partials `,` $lines attr-dict `:` type($partials)";
}
def Cu_FinishColumnsOp : Cu_StoringOp<"finish_columns"> {
  let summary = "Stores the totals of some of the columns";
  let arguments = (ins F32:$total, Cu_Pointer:$to, I64Attr:$first, I64Attr:$columns,
                       DefaultValuedAttr<I64Attr, "32">:$of_block);
  let assemblyFormat = "$total `,` $to attr-dict `:` type($to)";
}

//===- Rings of bulk copies -----------------------------------------------------------------===//

def Cu_RingOp : Cu_Op<"ring", [Cu_InSharedMemory]> {
  let summary = "Stages in shared memory that tiles pass through";
  let arguments = (ins I64Attr:$stages, I64Attr:$stage_bytes);
  let results = (outs Cu_Ring:$ring);
  let assemblyFormat = "attr-dict `:` type($ring)";
}
def Cu_MoveOp : Cu_Op<"move"> {
  let summary = "What the warp that fills a ring does, and all it does";
  let description = [{
    Of each input: the elements of a row (0: one value of each row), its place in a stage, and
    whether it is older than the predecessor, so that its first tiles need not wait. `loose`: tiles
    begin and end between the multiples of 16 bytes, and values of rows are only prefetched.
    `prefetch`: the first tiles come to the L2 cache before the predecessor has ended.
  }];
  let arguments = (ins Cu_Ring:$ring, I64:$rows, Variadic<Cu_Pointer>:$inputs,
                       DenseI64ArrayAttr:$elements, DenseI64ArrayAttr:$places,
                       DenseBoolArrayAttr:$older, UnitAttr:$loose, UnitAttr:$prefetch);
  let assemblyFormat = "$ring `,` $rows `(` $inputs `)` attr-dict `:` type($inputs)";
}
def Cu_AwaitRingOp : Cu_Op<"await_ring"> {
  let summary = "Waits until the next stage is filled";
  let arguments = (ins Cu_Ring:$ring);
  let assemblyFormat = "$ring attr-dict";
}
def Cu_ReleaseRingOp : Cu_Op<"release_ring"> {
  let summary = "The stage has been read and may be filled again";
  let arguments = (ins Cu_Ring:$ring);
  let assemblyFormat = "$ring attr-dict";
}
def Cu_ReadOp : Cu_Op<"read"> {
  let summary = "Reads a tile out of the current stage of a ring";
  let description = "`from`: the tensor, for the last elements of loose tiles.";
  let arguments = (ins Cu_Tile:$tile, Cu_Ring:$ring, Optional<Cu_Pointer>:$from, I64Attr:$place);
  let results = (outs Cu_Fragment:$fragment);
  let assemblyFormat = [{
    $tile `,` $ring (`ends` `in` $from^ `:` type($from))? attr-dict `:` type($fragment)
  }];
}
def Cu_ReadRowsOp : Cu_Op<"read_rows"> {
  let summary = "Reads one value a row, stored as in `from`, out of the current stage of a ring";
  let arguments = (ins Cu_Tile:$tile, Cu_Ring:$ring, Cu_Pointer:$from, I64Attr:$place);
  let results = (outs Cu_Rows:$values);
  let assemblyFormat = "$tile `,` $ring `,` $from attr-dict `:` type($from) `->` type($values)";
}

//===- Tiles whose rows are neighbours in memory ----------------------------------------------===//

def Cu_LoadTransposedOp : Cu_Op<"load_transposed", [Cu_InSharedMemory]> {
  let summary = "Loads a tile, whose rows are neighbours in memory, into shared memory";
  let description = "Behind a barrier it is everyone's.";
  let arguments = (ins Cu_Tile:$tile, Cu_Pointer:$from, Cu_Map:$map);
  let results = (outs Cu_Fragment:$fragment);
  let assemblyFormat = [{
    $tile `,` $from `,` $map attr-dict `:` type($from) `->` type($fragment)
  }];
}
def Cu_TransposedOp : Cu_Op<"transposed", [Cu_InSharedMemory]> {
  let summary = "Room in shared memory for such a tile of a result, rounded to its type";
  let arguments = (ins Cu_Tile:$tile);
  let results = (outs Cu_Fragment:$fragment);
  let assemblyFormat = "$tile attr-dict `:` type($fragment)";
}
def Cu_StoreTransposedOp : Cu_StoringOp<"store_transposed"> {
  let summary = "Stores a tile of cu.transposed, which a barrier has made everyone's";
  let arguments = (ins Cu_Tile:$tile, Cu_Fragment:$fragment, Cu_Pointer:$to, Cu_Map:$map);
  let assemblyFormat = [{
    $tile `,` $fragment `to` $to `,` $map attr-dict `:` type($fragment) `to` type($to)
  }];
}
