// Lists of tensors: what codegen/device/segment.cuh offers.

def Cu_PartOp : Cu_RegionOp<"part", [AttrSizedOperandSegments]> {
  let summary = "What the blocks from `begin` on that are below `end` do; all blocks without them";
  let arguments = (ins Optional<I64>:$begin, Optional<I64>:$end);
  let assemblyFormat = "(`from` $begin^)? (`to` $end^)? attr-dict-with-keyword $body";
}
def Cu_LookUpOp : Cu_Op<"look_up", [Cu_InSharedMemory]> {
  let summary = "Looks up the block's chunks of the tensors of a list of `count` chunks";
  let description = [{
    `chunks` and `segments` are the two parts of the table of the list (device/segment.cuh);
    `lists` pointers are in the record of an entry. A block has `per_block` chunks, and `first` is
    the block that has the first of them, if that is not block 0; or, where they are `shared`, its
    share of all. `table`: chunks that are looked up at a time; 0: the only one.
  }];
  let arguments = (ins Cu_Pointer:$chunks, Cu_Pointer:$segments, I64:$count, Optional<I64>:$first,
                       I64Attr:$size, I64Attr:$vector, I64Attr:$threads, I64Attr:$per_block,
                       I64Attr:$lists, I64Attr:$table, UnitAttr:$shared);
  let results = (outs Cu_Segments:$found);
  let assemblyFormat = [{
    $chunks `:` type($chunks) `,` $segments `:` type($segments) `,` $count (`from` $first^)?
    attr-dict
  }];
}
def Cu_ChunksOp : Cu_RegionOp<"chunks"> {
  let summary = "Works through chunks that have been looked up";
  let description = "The block's argument is the current chunk.";
  let arguments = (ins Cu_Segments:$found);
  let assemblyFormat = "$found attr-dict-with-keyword $body";
}
def Cu_StreamOp : Cu_RegionOp<"stream"> {
  let summary = "Sums over chunks that have been looked up, which are loaded ahead of their use";
  let description = [{
    The block's arguments are the current elements of the lists that `lists` names, of `types`, then
    the running sums of the current chunk, which are added to `sums`.
  }];
  let arguments = (ins Cu_Segments:$found, Variadic<Cu_Total>:$sums, DenseI64ArrayAttr:$lists,
                       TypeArrayAttr:$types, StrArrayAttr:$names);
  let assemblyFormat = "$found `into` `(` $sums `)` attr-dict-with-keyword $body";
}
def Cu_ListOp : Cu_Op<"list"> {
  let summary = "Where the chunk lies in the tensor of one of the lists";
  let arguments = (ins Cu_Segment:$segment, I64Attr:$index);
  let results = (outs Cu_Pointer:$pointer);
  let assemblyFormat = "$segment attr-dict `:` type($pointer)";
}
def Cu_NumberOp : Cu_Op<"number", [Pure]> {
  let summary = "A number that all elements share: computed ahead of them, not in their expressions";
  let arguments = (ins AnyType:$value);
  let results = (outs AnyType:$number);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($number)";
}
def Cu_EachPieceOp : Cu_RegionOp<"each_piece"> {
  let summary = "Computes on each element of the chunk";
  let description = "The block's arguments stand for the current element of the inputs.";
  let arguments = (ins Cu_Segment:$segment, Variadic<Cu_Pointer>:$inputs);
  let assemblyFormat = [{
    $segment `,` `(` ($inputs^ `:` type($inputs))? `)` attr-dict-with-keyword $body
  }];
}
def Cu_PutPieceOp : Cu_Op<"put_piece"> {
  let summary = "The current element of a result; stored a vector at a time, rounded to its type";
  let description = [{
    `index` names the list, as in cu.list. Its address is fetched only for the store: while loads
    are on their way, registers are scarce.
  }];
  let arguments = (ins AnyType:$value, Cu_Segment:$segment, I64Attr:$index, TypeAttr:$element,
                       StrAttr:$name);
  let assemblyFormat = "$value `,` $segment attr-dict `:` type($value)";
}
def Cu_StoreSumOp : Cu_StoringOp<"store_sum", [Cu_InSharedMemory]> {
  let summary = "Adds the block's running sums and stores them as the block's partial sum";
  let description = "Partial sums lie one sum after another, each a number for every block.";
  let arguments = (ins Cu_Total:$sum, Cu_Pointer:$partials, I64Attr:$index);
  let assemblyFormat = "$sum `,` $partials attr-dict `:` type($partials)";
}
def Cu_LastBlockOp
    : Cu_RegionOp<"last_block", [Cu_InSharedMemory, DeclareOpInterfaceMethods<ExitOpInterface, ["stores"]>]> {
  let summary = "What the last block of the kernel does that comes here";
  let description = "Blocks count themselves in `counter`, which is 0 before and after.";
  let arguments = (ins Cu_Pointer:$counter);
  let assemblyFormat = "$counter `:` type($counter) attr-dict-with-keyword $body";
}
def Cu_SumOfPartialsOp : Cu_Op<"sum_of_partials", [Cu_InSharedMemory, AttrSizedOperandSegments]> {
  let summary = "Adds the partial sums of all blocks, or of those of one part, in one block";
  let description = "Of a part: those of the blocks from `first` on that are below `end`.";
  let arguments = (ins Cu_Pointer:$partials, Optional<I64>:$first, Optional<I64>:$end,
                       I64Attr:$index, I64Attr:$threads);
  let results = (outs F32:$total);
  let assemblyFormat = [{
    $partials (`from` $first^)? (`to` $end^)? attr-dict `:` type($partials)
  }];
}
def Cu_StoreScalarOp : Cu_StoringOp<"store_scalar"> {
  let summary = "Stores a number, once in a block";
  let arguments = (ins AnyType:$value, Cu_Pointer:$to);
  let assemblyFormat = "$value `,` $to attr-dict `:` type($value) `,` type($to)";
}
