def Kiln_RmsNormOp : Kiln_NamedOp<"rms_norm"> {
  let summary = "Root-mean-square normalisation of each row";
  let description = [{
    `y = x * rstd * gamma`, `rstd = 1 / sqrt(mean(x^2) + eps)` over the last dimension.
    `gamma` has the row's width and may be left out. `rstd` is fp32, one a row.
    Source: Zhang, Sennrich, Root Mean Square Layer Normalization (2019).

    ```mlir
    %y, %rstd = kiln.rms_norm %x, %gamma {eps = 1.0e-06 : f32}
        : (tensor<?x1280xbf16>, tensor<1280xbf16>) -> (tensor<?x1280xbf16>, tensor<?xf32>)
    ```
  }];
  let arguments = (ins Kiln_FloatTensor:$input, Optional<Kiln_FloatTensor>:$gamma,
                       DefaultValuedAttr<F32Attr, "1.0e-5f">:$eps);
  let results = (outs Kiln_FloatTensor:$output, Kiln_FloatTensor:$rstd);
  let assemblyFormat = [{
    $input (`,` $gamma^)? attr-dict `:` functional-type(operands, results)
  }];
  let function = [{
func.func @rms_norm(%x: $x, %gamma: $row) -> ($x, $each {kiln.gradient = false}) {
  %y, %rstd = kiln.rms_norm %x, %gamma : ($x, $row) -> ($x, $each)
  return %y, %rstd : $x, $each
}
}];
}
