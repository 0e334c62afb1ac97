// Attention: what codegen/device/attention.cuh and attention_backward.cuh offer.

def Cu_Heads : Cu_Type<"Heads", "heads", "the rows of a tensor, head by head">;
def Cu_Scores : Cu_Type<"Scores", "scores", "how scores come from products, and which are open">;

def Cu_HeadRowsOp : Cu_StoringOp<"head_rows"> {
  let summary = "Rows of a tensor, `stride` elements apart in each head";
  let description = "`stored`: results are written to them. One access moves `access` elements.";
  let arguments = (ins Cu_Pointer:$data, Cu_Map:$map, I64:$stride, I64Attr:$access,
                       UnitAttr:$stored);
  let results = (outs Cu_Heads:$heads);
  let assemblyFormat = "$data `,` $map `,` $stride attr-dict `:` type($data)";
}
def Cu_RandomHeadsOp : Cu_Op<"random_heads"> {
  let summary = "Random numbers where rows of a tensor would lie, head by head";
  let description = "As `kiln.random` has them; `is_even`: the width of rows.";
  let arguments = (ins Cu_Pointer:$seed, Cu_Pointer:$offset, Cu_Map:$map, I64:$stride,
                       TypeAttr:$element, I64Attr:$bits, BoolAttr:$is_even);
  let results = (outs Cu_Heads:$heads);
  let assemblyFormat = "$seed `,` $offset `,` $map `,` $stride attr-dict `:` type(operands)";
}
def Cu_ComputedRowsOp : Cu_RegionOp<"computed_rows"> {
  let summary = "Rows of a result that is computed of attention's output, element by element";
  let description = [{
    `rows`: where it is stored. The block has an argument for the element of the output, and one for
    that of each of `inputs`; its last operation is cu.give. `element`: of the output.
  }];
  let arguments = (ins Cu_Heads:$rows, Variadic<Cu_Heads>:$inputs, TypeAttr:$element);
  let results = (outs Cu_Heads:$heads);
  let assemblyFormat = "$rows `of` `(` $inputs `)` attr-dict-with-keyword $body";
}
def Cu_GiveOp : Cu_Op<"give"> {
  let summary = "The element of the result";
  let arguments = (ins F32:$value);
  let assemblyFormat = "$value attr-dict";
}
def Cu_TwoResultsOp : Cu_Op<"two_results"> {
  let summary = "Both of what is stored of attention's output";
  let arguments = (ins Cu_Heads:$first, Cu_Heads:$second);
  let results = (outs Cu_Heads:$heads);
  let assemblyFormat = "$first `,` $second attr-dict";
}
def Cu_ScoresOp : Cu_Op<"scores", [AttrSizedOperandSegments]> {
  let summary = "The scores of queries and keys";
  let description = [{
    `heads`: the number of a head in the row-major order of dropout, which drops what has a word
    below `least`, of so many bits, and scales the others. `masks_places`: the mask is not of keys
    alone.
  }];
  let arguments = (ins I64:$queries, I64:$keys, Cu_Map:$heads, Optional<Cu_Heads>:$bias,
                       Optional<Cu_Heads>:$mask, Optional<Cu_Pointer>:$query_starts,
                       Optional<Cu_Pointer>:$key_starts, Optional<I64>:$start_count,
                       Optional<Cu_Pointer>:$seed, Optional<Cu_Pointer>:$offset,
                       UnitAttr:$masks_places, F32Attr:$scale, F32Attr:$softcap, Kiln_CausalAttr:$causal,
                       I64Attr:$window_left, I64Attr:$window_right, I64Attr:$bits, I64Attr:$least,
                       F32Attr:$kept);
  let results = (outs Cu_Scores:$scores);
  let assemblyFormat = "operands attr-dict `:` type(operands) `->` type($scores)";
}

/// What such a call says of shared memory: its bytes are for the tile.
defvar ofTile = [{
  int64_t $cppClass::sharedBytes() { return getBytes(); }
  ::kiln::cu::SharedUse $cppClass::sharedUse() { return ::kiln::cu::SharedUse::tile; }
}];
/// A call of the device library for a block's tile. `of`: what is passed, in order.
class Cu_TileOfScoresOp<string mnemonic, dag more = (ins)> : Cu_Op<mnemonic, [Cu_InSharedMemory]> {
  let arguments = !con((ins Cu_Scores:$scores, Variadic<Cu_Heads>:$of, TypeAttr:$element,
                            I64Attr:$width, I64Attr:$value_width, I64Attr:$queries, I64Attr:$keys,
                            I64Attr:$stages, I64Attr:$bytes), more);
  let extraClassDefinition = ofTile;
}
def Cu_AttendOp : Cu_TileOfScoresOp<"attend"> {
  let summary = "Attention of a tile of queries: query, key, value, output, lse";
  let assemblyFormat = "$scores `(` $of `)` attr-dict";
}
def Cu_AttendByWarpgroupsOp : Cu_Op<"attend_by_warpgroups", [
    Cu_InSharedMemory, AttrSizedOperandSegments]> {
  let summary = "The same by products of warpgroups, of query, key and value as maps show them";
  let description = [{
    `inner`: heads of the third dimension of each map. `of`: output, lse. The warps that load end with
    `loading` registers, the others with `working`. `heads`: all, which blocks that stay are told.
  }];
  let arguments = (ins Cu_Scores:$scores, Optional<I64>:$heads, Variadic<Cu_TensorMap>:$maps,
                       Variadic<I64>:$inner, Variadic<Cu_Heads>:$of, TypeAttr:$element,
                       I64Attr:$width, I64Attr:$value_width, I64Attr:$queries, I64Attr:$keys,
                       I64Attr:$stages, I64Attr:$bytes, I64Attr:$shared_by, I64Attr:$loading,
                       I64Attr:$working);
  let extraClassDefinition = ofTile;
  let assemblyFormat = "$scores (`heads` $heads^)? `(` $maps `)` `(` $inner `)` `(` $of `)` attr-dict";
}
/// A call for heads that share a bias, which a block holds: of `held` keys, in shared memory; 0: there
/// is none, and no map of it. The block takes heads of one of `groups` groups of the `sharing` heads of a
/// bias, or one of these, where `groups` is 0, `side` at a time, each of which has `slots` places for
/// its own rows.
class Cu_SharingOp<string mnemonic, dag more = (ins), string shown = "", string types = "",
                   list<string> methods = []> : Op<Cu_Dialect, mnemonic, [
    DeclareOpInterfaceMethods<ExitOpInterface, methods>, Cu_InSharedMemory,
    AttrSizedOperandSegments]> {
  let arguments = !con((ins Cu_Scores:$scores, Variadic<Cu_TensorMap>:$maps, Variadic<I64>:$inner,
                            Variadic<Cu_Heads>:$of, I64:$biases, I64:$sharing), more,
                       (ins TypeAttr:$element, TypeAttr:$bias_element, I64Attr:$width,
                            I64Attr:$value_width, I64Attr:$queries, I64Attr:$keys, I64Attr:$stages,
                            I64Attr:$bytes, I64Attr:$shared_by, I64Attr:$groups, I64Attr:$side,
                            I64Attr:$slots, I64Attr:$held, I64Attr:$loading, I64Attr:$working));
  let assemblyFormat = "$scores `(` $maps `)` `(` $inner `)` `(` $of `)` $biases `,` $sharing" #
                       shown # " attr-dict" # types;
  let extraClassDefinition = ofTile;
}
def Cu_AttendSharingOp : Cu_SharingOp<"attend_sharing", (ins BoolAttr:$widens)> {
  let summary = "Attention of heads that share a bias: output, lse";
  let description = [{
    `maps`: of query, key, value and bias. `widens`: a block holds the bias in fp32, over the scale.
  }];
}
def Cu_AttendSharingByWarpsOp : Cu_SharingOp<"attend_sharing_by_warps"> {
  let summary = "The same of narrow rows, by products of warps";
}
def Cu_DifferentiateQueriesSharingOp : Cu_SharingOp<"differentiate_queries_sharing",
    (ins BoolAttr:$widens)> {
  let summary = "Gradients of queries whose heads share a bias: lse, delta, result";
  let description = "`maps`: of query, key, value, the output's gradient and bias.";
}
def Cu_DifferentiateKeysSharingOp : Cu_SharingOp<"differentiate_keys_sharing"> {
  let summary = "Gradients of keys and values whose heads share a bias: lse, delta, results";
  let description = [{
    `maps`: of query, key, value, the output's gradient and bias. A block has keys, and holds the bias
    of `held` queries.
  }];
}
def Cu_DifferentiateKeysAndBiasSharingOp : Cu_SharingOp<"differentiate_keys_and_bias_sharing",
    (ins Cu_Pointer:$partials, I64Attr:$tiles), " `to` $partials", " `:` type($partials)",
    ["stores"]> {
  let summary = "The same, and sums of score gradients over heads that share a bias, in groups";
  let description = [{
    All queries are seen, in `tiles` tiles of `queries`. Each group has `side` sums.
  }];
}
def Cu_DifferentiateAllSharingOp : Cu_SharingOp<"differentiate_all_sharing",
    (ins Cu_Pointer:$partials, Optional<Cu_Pointer>:$of_keys, I64Attr:$tiles, I64Attr:$cluster,
         I64Attr:$first, BoolAttr:$resumes, BoolAttr:$leaves), " `to` $partials (`,` $of_keys^)?",
    " `:` type($partials) (`,` type($of_keys)^)?", ["stores"]> {
  let summary = "The same, and gradients of queries: lse, delta, results of queries, keys and values";
  let description = [{
    A cluster of `cluster` blocks, 1 to 3, has all keys. Where kernels have some of the queries each,
    from `first` on, one `leaves` its sums of keys and values in `of_keys`, and the next `resumes`.
  }];
}
def Cu_DifferentiateAllByWarpsOp : Cu_SharingOp<"differentiate_all_by_warps",
    (ins Cu_Pointer:$partials, I64Attr:$tiles, I64Attr:$cluster), " `to` $partials",
    " `:` type($partials)", ["stores"]> {
  let summary = "The same of narrow rows, by products of warps, which have all queries in one tile";
}
def Cu_DifferentiateBiasSharingOp : Cu_SharingOp<"differentiate_bias_sharing",
    (ins Cu_Pointer:$partials), " `to` $partials", " `:` type($partials)", ["stores"]> {
  let summary = "Sums of score gradients over heads that share a bias, in groups: lse, delta";
  let description = [{
    `maps`: of query, key, value, the output's gradient and bias. A block holds the bias of a tile of
    keys. Each group has `side` sums.
  }];
}
def Cu_DifferentiateInTurnsOp : Op<Cu_Dialect, "differentiate_in_turns", [
    DeclareOpInterfaceMethods<ExitOpInterface, ["stores"]>, Cu_InSharedMemory,
    AttrSizedOperandSegments]> {
  let summary = "All gradients, whose blocks take turns with those of queries: results of keys and values";
  let description = [{
    `maps`: of query, key, value and the output's gradient. `heads`: of keys. `numbers` and `turns` are
    those of cu.begin_turns, `sums` of cu.finish_turns.
  }];
  let arguments = (ins Cu_Scores:$scores, Variadic<Cu_TensorMap>:$maps, Variadic<I64>:$inner,
                       Variadic<Cu_Heads>:$of, I64:$heads, Cu_Pointer:$numbers, Cu_Pointer:$sums,
                       Cu_Pointer:$turns, TypeAttr:$element, I64Attr:$width, I64Attr:$value_width,
                       I64Attr:$queries, I64Attr:$keys, I64Attr:$stages, I64Attr:$bytes,
                       I64Attr:$shared_by, I64Attr:$loading, I64Attr:$working);
  let extraClassDefinition = ofTile;
  let assemblyFormat = [{
    $scores `(` $maps `)` `(` $inner `)` `(` $of `)` $heads `,` $numbers `to` $sums `in` $turns
    attr-dict `:` type($numbers) `,` type($sums) `,` type($turns)
  }];
}
def Cu_BeginTurnsOp : Cu_StoringOp<"begin_turns"> {
  let summary = "Numbers of queries, ready to be copied by tiles, and turns that begin: a block each";
  let description = "`of`: lse, delta.";
  let arguments = (ins Variadic<Cu_Heads>:$of, I64:$queries, Cu_Pointer:$numbers,
                       Cu_Pointer:$turns, I64Attr:$turn, I64Attr:$tile);
  let assemblyFormat = [{
    `(` $of `)` $queries `to` $numbers `,` $turns attr-dict `:` type($numbers) `,` type($turns)
  }];
}
def Cu_FinishTurnsOp : Cu_Op<"finish_turns", [Cu_InSharedMemory]> {
  let summary = "Rounds the sums of the queries of a turn";
  let arguments = (ins Cu_Pointer:$sums, Cu_Heads:$to, I64:$queries, I64:$keys, F32Attr:$scale,
                       I64Attr:$width, I64Attr:$turn, I64Attr:$bytes);
  let extraClassDefinition = ofTile;
  let assemblyFormat = "$sums `to` $to `,` $queries `,` $keys attr-dict `:` type($sums)";
}
def Cu_DifferentiateQueriesOp : Cu_TileOfScoresOp<"differentiate_queries"> {
  let summary = "Gradients of queries: query, key, value, output's gradient, lse, delta, result";
  let assemblyFormat = "$scores `(` $of `)` attr-dict";
}
def Cu_DifferentiateKeysOp : Cu_TileOfScoresOp<"differentiate_keys",
    (ins I64Attr:$shared_by, BoolAttr:$has_keys, BoolAttr:$has_values)> {
  let summary = "Gradients of keys and values: query, key, value, output's gradient, lse, delta, results";
  let description = "`shared_by` heads of queries share one of keys. One result stands for both where one is asked for.";
  let assemblyFormat = "$scores `(` $of `)` attr-dict";
}
def Cu_AttendHeadsOp : Cu_TileOfScoresOp<"attend_heads"> {
  let summary = "The same as cu.attend where a block has all keys of a head";
  let assemblyFormat = "$scores `(` $of `)` attr-dict";
}
def Cu_DifferentiateHeadsOp : Cu_TileOfScoresOp<"differentiate_heads", (ins I64Attr:$shared_by)> {
  let summary = "All gradients of heads, a block each: query, key, value, output's gradient, lse, delta, results";
  let assemblyFormat = "$scores `(` $of `)` attr-dict";
}
/// A call of the device library for rows of `heads`, each of `lanes` threads. `of`: as of the operation
/// whose name it begins with.
class Cu_ByThreadsOp<string mnemonic, dag more = (ins)> : Cu_Op<mnemonic # "_by_threads"> {
  let arguments = !con((ins Cu_Scores:$scores, I64:$heads, Variadic<Cu_Heads>:$of,
                            TypeAttr:$element, I64Attr:$width, I64Attr:$value_width, I64Attr:$rows,
                            I64Attr:$lanes), more);
  let assemblyFormat = "$scores `,` $heads `(` $of `)` attr-dict";
}
def Cu_AttendByThreadsOp : Cu_ByThreadsOp<"attend"> {
  let summary = "Attention of rows of queries";
}
def Cu_DifferentiateQueriesByThreadsOp : Cu_ByThreadsOp<"differentiate_queries"> {
  let summary = "Gradients of rows of queries";
}
def Cu_DifferentiateKeysByThreadsOp : Cu_ByThreadsOp<"differentiate_keys",
    (ins I64Attr:$shared_by, BoolAttr:$has_keys, BoolAttr:$has_values)> {
  let summary = "Gradients of rows of keys and values";
}
def Cu_DifferentiateBiasOp : Op<Cu_Dialect, "differentiate_bias",
    [DeclareOpInterfaceMethods<ExitOpInterface, ["stores"]>, Cu_InSharedMemory]> {
  let summary = "Sums of score gradients over heads that share a bias, in groups";
  let description = "`of`: query, key, value, output's gradient, lse, delta.";
  let arguments = (ins Cu_Scores:$scores, Variadic<Cu_Heads>:$of, I64:$biases, I64:$sharing,
                       Cu_Pointer:$partials, TypeAttr:$element, I64Attr:$width,
                       I64Attr:$value_width, I64Attr:$queries, I64Attr:$keys, I64Attr:$stages,
                       I64Attr:$bytes, I64Attr:$groups);
  let extraClassDefinition = ofTile;
  let assemblyFormat = [{
    $scores `(` $of `)` $biases `,` $sharing `to` $partials attr-dict `:` type($partials)
  }];
}
def Cu_FinishBiasOp : Cu_Op<"finish_bias"> {
  let summary = "Adds up groups of partial sums, and what the bias is the same along";
  let arguments = (ins Cu_Pointer:$partials, Cu_Heads:$to, I64:$biases, I64:$queries, I64:$keys,
                       I64:$rows, I64:$columns, I64Attr:$groups, I64Attr:$threads);
  let assemblyFormat = [{
    $partials `to` $to `,` $biases `,` $queries `,` $keys `,` $rows `,` $columns attr-dict `:`
    type($partials)
  }];
}
