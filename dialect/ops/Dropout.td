def Kiln_DropoutOp : Kiln_NamedOp<"dropout"> {
  let summary = "Sets random elements to zero and scales the others";
  let description = [{
    `y = u >= t ? x * scale : 0`, `scale = 1 / (1 - p)` rounded to fp32, with `u` the i32 numbers
    of `kiln.random` for this seed and offset and `t = round(p * 2^32) - 2^31`: an element is
    dropped with probability `p`, in [0, 1]; `p = 1` gives zeros, `p = 0` copies. `u` has the shape
    of `x`, with size 1 in the dimensions `shared`, along which one number decides for all elements
    (row-wise and column-wise dropout). The gradient computes the same numbers again; nothing is
    stored.
    A dropped NaN or infinity gives 0 and passes no gradient: the element is not read at all, while
    ATen multiplies it by zero, which gives NaN. Everything else is as in ATen.
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
