def Kiln_SiluOp : Kiln_NamedOp<"silu"> {
  let summary = "Sigmoid linear unit of each element";
  let description = [{
    `y = x / (1 + exp(-x))`, for tensors of any rank from 1; also known as swish. Computed in fp32
    and rounded to the element type of the result, which may differ from the input's. `silu(inf)`
    is infinite, `silu(-inf)` is NaN as the formula says; NaN stays NaN. The gradient
    `dy s (1 + x (1 - s))` with `s = sigmoid(x)` is computed from `x`.
    Source: Hendrycks, Gimpel, Gaussian Error Linear Units (2016).

    ```mlir
    %y = kiln.silu %x : tensor<?x128xbf16> -> tensor<?x128xbf16>
    ```
  }];
  let arguments = (ins Kiln_FloatTensor:$input);
  let results = (outs Kiln_FloatTensor:$output);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($output)";
  let function = [{
func.func @silu(%x: $x) -> $x {
  %y = kiln.silu %x : $x -> $x
  return %y : $x
}
}];
}
