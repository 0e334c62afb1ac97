def Kiln_RandomOp : Kiln_FreeOp<"random", [
    DeclareOpInterfaceMethods<KilnOpInterface, ["shapeSource"]>]> {
  let summary = "Random numbers that depend on seed, offset and place alone";
  let description = [{
    Philox4x32-10, a counter-based generator. For the element with row-major index `i` in the
    shape of the result (not of a tensor that it is broadcast to):
    `key = seed`, `counter = (i / 4, offset)`, both 64-bit, low word first;
    `word = philox(key, counter)[i % 4]`.
    An i32 result is the word, an fp32 result `(word >> 8) / 2^24`, uniform in [0, 1).
    With `bits 16` a counter makes eight numbers, for half the work: `counter = (i / 8, offset)`, and
    the upper half of `word` is the low half of `philox(key, counter)[i / 2 % 4]` for an even `i`, its
    upper half for an odd one; the lower half is zero.
    No schedule changes a number, so nothing need be stored to have it again: pass another offset
    for other numbers. Where the result has dynamic sizes they are those of `like`, whose sizes
    agree with the result's, or the result's is 1. No gradient flows to seed and offset.
    The fp64 reference holds integers as doubles: it is exact for seeds and offsets up to 2^53.
    Source: Salmon, Moraes, Dror, Shaw, Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011).

    ```mlir
    %u = kiln.random %seed, %offset like %x : tensor<?x128xbf16> -> tensor<?x128xf32>
    %w = kiln.random %seed, %offset bits 16 -> tensor<64x128xi32>
    ```
  }];
  let arguments = (ins Kiln_SeedTensor:$seed, Kiln_SeedTensor:$offset, Optional<Kiln_Tensor>:$like,
                       DefaultValuedAttr<I64Attr, "32">:$bits);
  let results = (outs RankedTensorOf<[F32, I32]>:$output);
  let assemblyFormat = [{
    $seed `,` $offset (`bits` $bits^)? (`like` $like^ `:` type($like))? attr-dict `->` type($output)
  }];
}
