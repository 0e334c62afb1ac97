def Kiln_SwigluOp : Kiln_NamedOp<"swiglu"> {
  let summary = "Multiplies by the sigmoid linear unit of a gate";
  let description = [{
    `y = silu(gate) x`, `silu(g) = g / (1 + exp(-g))`, for two tensors of one shape, of any rank
    from 1. Computed in fp32 and rounded once, to the element type of the result; the three types
    may differ. Infinities and NaN give what the formula gives. The gradients
    `dx = dy silu(gate)` and `dgate = dy x s (1 + gate (1 - s))`, `s = sigmoid(gate)`, are computed
    from the inputs.
    Source: Shazeer, GLU Variants Improve Transformer (2020).

    ```mlir
    %y = kiln.swiglu %gate, %x
        : tensor<?x2048xbf16>, tensor<?x2048xbf16> -> tensor<?x2048xbf16>
    ```
  }];
  let arguments = (ins Kiln_FloatTensor:$gate, Kiln_FloatTensor:$input);
  let results = (outs Kiln_FloatTensor:$output);
  let assemblyFormat = [{
    $gate `,` $input attr-dict `:` type($gate) `,` type($input) `->` type($output)
  }];
  let function = [{
func.func @swiglu(%gate: $x, %x: $x) -> $x {
  %y = kiln.swiglu %gate, %x : $x, $x -> $x
  return %y : $x
}
}];
}
