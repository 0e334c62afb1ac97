def Kiln_DropoutOp : Kiln_NamedOp<"dropout"> {
  let summary = "Sets random elements to zero and scales the others";
  let description = [{
    `y = u >= t ? x * scale : 0`, `scale = 1 / (1 - p)` rounded to fp32, with `u` the i32 numbers
    of `kiln.random` for this seed and offset and `t = round(p * 2^32) - 2^31`: an element is
    dropped with probability `p`, in [0, 1]; `p = 1` gives zeros, `p = 0` copies. Where 16 bits say
    `p` and `1 - p` to a thousandth, from 1/128 to 127/128, `u` has `bits 16` and `p * 2^16` is rounded
    (0.1 is 0.100006): random numbers are half the arithmetic of a dropout. `u` has the shape of `x`, with size 1 in the dimensions `shared`, along which one number decides for all elements
    (row-wise and column-wise dropout). The gradient computes the same numbers again; nothing is
    stored.
    What is dropped is 0 and gets the gradient 0, NaN and infinity too: the result shall not depend
    on it. ATen multiplies by a mask, which gives NaN there; scale and rounding are as in ATen.
    Source: Srivastava et al., Dropout (JMLR 2014); shared: Jumper et al., AlphaFold (2021).

    ```mlir
    %y = kiln.dropout %x, %seed, %offset p 0.15 shared [0]
        : tensor<?x256x128xbf16> -> tensor<?x256x128xbf16>
    ```
  }];
  let arguments = (ins Kiln_FloatTensor:$input, Kiln_SeedTensor:$seed, Kiln_SeedTensor:$offset,
                       F32Attr:$p, DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$shared);
  let results = (outs Kiln_FloatTensor:$output);
  let assemblyFormat = [{
    $input `,` $seed `,` $offset `p` $p (`shared` $shared^)? attr-dict `:`
    type($input) `->` type($output)
  }];
}
