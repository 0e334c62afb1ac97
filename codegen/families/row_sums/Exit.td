// Sums of rows: what codegen/device/sums.cuh and lists.cuh offer.

def Cu_Terms : Cu_Type<"Terms", "terms", "the rows that each row of a result adds up">;

def Cu_StridedTermsOp : Cu_Op<"strided_terms"> {
  let summary = "The terms of a sum over leading dimensions";
  let description = "The maps lead to a row of the result and, from there, to each of its terms.";
  let arguments = (ins Cu_Map:$kept, Cu_Map:$summed, I64:$count);
  let results = (outs Cu_Terms:$terms);
  let assemblyFormat = "$kept `,` $summed `,` $count attr-dict";
}
def Cu_ListRowsOp : Cu_StoringOp<"list_rows", [Cu_InSharedMemory]> {
  let summary = "Lists the rows of each of the block's segments, in their order";
  let description = [{
    `spans` gets where the list of each segment begins and ends, `list` the rows. `padding` is an
    index that names no segment.
  }];
  let arguments = (ins Cu_Pointer:$index, Cu_Map:$map, I64:$rows, I64:$segments, Cu_Pointer:$spans,
                       Cu_Pointer:$list, I64Attr:$padding, I64Attr:$threads,
                       I64Attr:$block_segments);
  let assemblyFormat = [{
    $index `,` $map `,` $rows `,` $segments `to` $spans `,` $list attr-dict `:` type($index) `,`
    type($spans) `,` type($list)
  }];
}
def Cu_ListedTermsOp : Cu_Op<"listed_terms"> {
  let summary = "The terms of the sums of segments, as list_rows lists them";
  let arguments = (ins Cu_Pointer:$spans, Cu_Pointer:$list, Cu_Map:$map);
  let results = (outs Cu_Terms:$terms);
  let assemblyFormat = "$spans `,` $list `,` $map attr-dict `:` type($spans) `,` type($list)";
}
def Cu_SumRowsOp : Cu_StoringOp<"sum_rows", [Cu_InSharedMemory]> {
  let summary = "Adds up the terms of the block's units and stores the totals";
  let description = [{
    A unit is `lanes` x `vector` columns of one of the `parts` of the terms of one row of the
    result; a block works on `block_units` of all `units`. One store moves `access` elements.
  }];
  let arguments = (ins Cu_Pointer:$from, Cu_Terms:$terms, Cu_Pointer:$to, Cu_Map:$map, I64:$units,
                       I64Attr:$columns, I64Attr:$lanes, I64Attr:$vector, I64Attr:$block_units,
                       I64Attr:$parts, I64Attr:$threads, I64Attr:$access);
  let assemblyFormat = [{
    $from `,` $terms `to` $to `,` $map `,` $units attr-dict `:` type($from) `,` type($to)
  }];
}
