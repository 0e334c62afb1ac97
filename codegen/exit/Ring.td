// Rings of bulk copies: what codegen/device/ring.cuh offers. Part of Exit.td.

def Cu_RingOp : Cu_Op<"ring"> {
  let summary = "Stages in shared memory that tiles pass through";
  let arguments = (ins I64Attr:$stages, I64Attr:$stage_bytes,
                       DefaultValuedAttr<I64Attr, "0">:$scratch);
  let results = (outs Cu_Ring:$ring);
  let assemblyFormat = "attr-dict `:` type($ring)";
}
def Cu_MoveOp : Cu_Op<"move"> {
  let summary = "What the warp that fills a ring does, and all it does";
  let description = [{
    Of each input: the elements of a row (0: one value of each row), its place in a stage, and
    whether it is older than the predecessor, so that its first tiles need not wait.
  }];
  let arguments = (ins Cu_Ring:$ring, I64:$rows, Variadic<Cu_Pointer>:$inputs,
                       DenseI64ArrayAttr:$elements, DenseI64ArrayAttr:$places,
                       DenseBoolArrayAttr:$older);
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
  let arguments = (ins Cu_Tile:$tile, Cu_Ring:$ring, I64Attr:$place);
  let results = (outs Cu_Fragment:$fragment);
  let assemblyFormat = "$tile `,` $ring attr-dict `:` type($fragment)";
}
def Cu_ReadRowsOp : Cu_Op<"read_rows"> {
  let summary = "Reads one value a row, stored as in `from`, out of the current stage of a ring";
  let arguments = (ins Cu_Tile:$tile, Cu_Ring:$ring, Cu_Pointer:$from, I64Attr:$place);
  let results = (outs Cu_Rows:$values);
  let assemblyFormat = "$tile `,` $ring `,` $from attr-dict `:` type($from) `->` type($values)";
}
