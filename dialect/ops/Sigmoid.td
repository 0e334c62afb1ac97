def Kiln_SigmoidOp : Kiln_NamedOp<"sigmoid"> {
  let summary = "Logistic sigmoid of each element";
  let description = [{
    `y = 1 / (1 + exp(-x))`, for tensors of any rank from 1. Computed in fp32 and rounded to the
    element type of the result, which may differ from the input's. `sigmoid(-inf)` is 0,
    `sigmoid(inf)` is 1; NaN stays NaN. The gradient `dy y (1 - y)` is computed from `x`.
    Source: Hochreiter, Schmidhuber, Long Short-Term Memory (1997), for gates.

    ```mlir
    %y = kiln.sigmoid %x : tensor<?x128xbf16> -> tensor<?x128xbf16>
    ```
  }];
  let arguments = (ins Kiln_FloatTensor:$input);
  let results = (outs Kiln_FloatTensor:$output);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($output)";
  let function = [{
func.func @sigmoid(%x: $x) -> $x {
  %y = kiln.sigmoid %x : $x -> $x
  return %y : $x
}
}];
}
