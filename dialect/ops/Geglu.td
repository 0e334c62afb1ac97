def Kiln_GegluOp : Kiln_NamedOp<"geglu"> {
  let summary = "Multiplies by the Gaussian error linear unit of a gate";
  let description = [{
    `y = gelu(gate) x` with the formulas of `kiln.gelu`, also by `approximate tanh`, for two
    tensors of one shape, of any rank from 1. Computed in fp32 and rounded once, to the element
    type of the result; the three types may differ. Infinities and NaN give what the formula
    gives. The gradients `dx = dy gelu(gate)` and `dgate = dy x gelu'(gate)` are computed from
    the inputs.
    Source: Shazeer, GLU Variants Improve Transformer (2020).

    ```mlir
    %y = kiln.geglu %gate, %x approximate tanh
        : tensor<?x2048xbf16>, tensor<?x2048xbf16> -> tensor<?x2048xbf16>
    ```
  }];
  let arguments = (ins Kiln_FloatTensor:$gate, Kiln_FloatTensor:$input,
                       DefaultValuedAttr<Kiln_ApproximateAttr,
                                         "::kiln::ir::Approximate::none">:$approximate);
  let results = (outs Kiln_FloatTensor:$output);
  let assemblyFormat = [{
    $gate `,` $input (`approximate` $approximate^)? attr-dict `:` type($gate) `,` type($input)
    `->` type($output)
  }];
  let function = [{
func.func @geglu(%gate: $x, %x: $x) -> $x {
  %y = kiln.geglu %gate, %x : $x, $x -> $x
  return %y : $x
}
}];
}
