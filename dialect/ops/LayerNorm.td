def Kiln_LayerNormOp : Kiln_NamedOp<"layer_norm", [AttrSizedOperandSegments]> {
  let summary = "Layer normalisation of each row";
  let description = [{
    With `m = mean(x)`, `v = mean((x - m)^2)` over the last dimension:
    `y = (x - m) * rstd * gamma + beta`, `rstd = 1 / sqrt(v + eps)`.
    `gamma` and `beta` have the row's width and may be left out (beta needs gamma). `mean` and
    `rstd` are fp32, one a row; a result that nobody uses is not computed. A row of equal elements
    gives beta, however large they are; one with an infinity or NaN is NaN, its mean too.
    Source: Ba, Kiros, Hinton, Layer Normalization (2016).

    ```mlir
    %y, %mean, %rstd = kiln.layer_norm %x, %gamma, %beta {eps = 1.0e-05 : f32}
        : (tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32>)
       -> (tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>)
    ```
  }];
  let arguments = (ins Kiln_FloatTensor:$input, Optional<Kiln_FloatTensor>:$gamma,
                       Optional<Kiln_FloatTensor>:$beta,
                       DefaultValuedAttr<F32Attr, "1.0e-5f">:$eps);
  let results = (outs Kiln_FloatTensor:$output, Kiln_FloatTensor:$mean, Kiln_FloatTensor:$rstd);
  let assemblyFormat = [{
    $input (`,` $gamma^)? (`,` $beta^)? attr-dict `:` functional-type(operands, results)
  }];
  let function = [{
func.func @layer_norm(%x: $x, %gamma: $row, %beta: $row)
    -> ($x, $each {kiln.gradient = false}, $each {kiln.gradient = false}) {
  %y, %mean, %rstd = kiln.layer_norm %x, %gamma, %beta
      : ($x, $row, $row) -> ($x, $each, $each)
  return %y, %mean, %rstd : $x, $each, $each
}
}];
}
