def Kiln_RopeOp : Kiln_NamedOp<"rope"> {
  let summary = "Rotary position embedding: turns pairs of columns by an angle for each position";
  let description = [{
    The first `width` columns of a row (all without `width`) form pairs, `interleaved` (2i and
    2i + 1) or `half_split` (i and i + width / 2, as in GPT-NeoX). Pair i is turned by the angle
    `a = position * base^(-2i / width)`:

        y1 = x1 cos(a) - x2 sin(a),  y2 = x2 cos(a) + x1 sin(a)

    and by `-a` with `inverse`. The columns behind are copied. Dimension k of the positions is
    dimension `dims[k]` of the input, with its size or 1; positions are exact up to 2^24.
    The frequency is known to 2^-29 of itself and the angle is reduced to one turn before it is
    rounded to fp32, so that late positions are turned as exactly as early ones. The gradient turns
    back: it needs the positions and nothing else.
    Source: Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding (2021).

    ```mlir
    %y = kiln.rope %x, %positions dims [1] half_split base 5.0e5 width 64
        : tensor<?x?x8x128xbf16>, tensor<?xi32> -> tensor<?x?x8x128xbf16>
    ```
  }];
  let arguments = (ins Kiln_FloatTensor:$input, Kiln_IndexTensor:$positions,
                       DenseI64ArrayAttr:$dims, Kiln_PairingAttr:$pairing,
                       DefaultValuedAttr<F64Attr, "10000.0">:$base, OptionalAttr<I64Attr>:$width,
                       UnitAttr:$inverse);
  let results = (outs Kiln_FloatTensor:$output);
  let assemblyFormat = [{
    $input `,` $positions `dims` $dims $pairing (`base` $base^)? (`width` $width^)?
    (`inverse` $inverse^)? attr-dict `:` type($input) `,` type($positions) `->` type($output)
  }];
  let extraClassDeclaration = [{
    ::kiln::ir::PairsAttr pairs(); // of columns, by `pairing` and `width`
  }];
}
