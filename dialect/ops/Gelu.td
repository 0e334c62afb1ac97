def Kiln_GeluOp : Kiln_NamedOp<"gelu"> {
  let summary = "Gaussian error linear unit of each element";
  let description = [{
    `y = x (1 + erf(x / sqrt(2))) / 2`, or with `approximate tanh`
    `y = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2`, for tensors of any rank from 1.
    Computed in fp32 and rounded to the element type of the result, which may differ from the
    input's. `gelu(inf)` is infinite, `gelu(-inf)` is NaN as the formula says; NaN stays NaN. The
    gradient is computed from `x`.
    Source: Hendrycks, Gimpel, Gaussian Error Linear Units (2016).

    ```mlir
    %y = kiln.gelu %x : tensor<?x512xbf16> -> tensor<?x512xbf16>
    %z = kiln.gelu %x approximate tanh : tensor<?x512xbf16> -> tensor<?x512xbf16>
    ```
  }];
  let arguments = (ins Kiln_FloatTensor:$input,
                       DefaultValuedAttr<Kiln_ApproximateAttr,
                                         "::kiln::ir::Approximate::none">:$approximate);
  let results = (outs Kiln_FloatTensor:$output);
  let assemblyFormat = [{
    $input (`approximate` $approximate^)? attr-dict `:` type($input) `->` type($output)
  }];
  let function = [{
func.func @gelu(%x: $x) -> $x {
  %y = kiln.gelu %x : $x -> $x
  return %y : $x
}
}];
}
