// Tiles whose rows are neighbours in memory: what codegen/device/turn.cuh offers. Part of Exit.td.

def Cu_LoadTurnedOp : Cu_Op<"load_turned"> {
  let summary = "Loads a tile, whose rows are neighbours in memory, into shared memory";
  let description = "Behind a barrier it is everyone's.";
  let arguments = (ins Cu_Tile:$tile, Cu_Pointer:$from, Cu_Map:$map,
                       DefaultValuedAttr<I64Attr, "0">:$scratch);
  let results = (outs Cu_Fragment:$fragment);
  let assemblyFormat = [{
    $tile `,` $from `,` $map attr-dict `:` type($from) `->` type($fragment)
  }];
}
def Cu_TurnedOp : Cu_Op<"turned"> {
  let summary = "Room in shared memory for such a tile of a result, rounded to its type";
  let arguments = (ins Cu_Tile:$tile, DefaultValuedAttr<I64Attr, "0">:$scratch);
  let results = (outs Cu_Fragment:$fragment);
  let assemblyFormat = "$tile attr-dict `:` type($fragment)";
}
def Cu_StoreTurnedOp : Cu_Op<"store_turned"> {
  let summary = "Stores a tile of cu.turned, which a barrier has made everyone's";
  let arguments = (ins Cu_Tile:$tile, Cu_Fragment:$fragment, Cu_Pointer:$to, Cu_Map:$map);
  let assemblyFormat = [{
    $tile `,` $fragment `to` $to `,` $map attr-dict `:` type($fragment) `to` type($to)
  }];
}
