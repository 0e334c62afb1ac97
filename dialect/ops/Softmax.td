def Kiln_SoftmaxOp : Kiln_NamedOp<"softmax", [AttrSizedOperandSegments]> {
  let summary = "Softmax of each row, scaled, biased and masked";
  let description = [{
    `y = exp(s - max(s)) / sum(exp(s - max(s)))` over the last dimension,
    `s = x * scale + bias` where the mask is true. Where it is false `y` is 0. A row without an open
    place, whose mask is false everywhere or `s` -inf wherever it is true, gives zeros, and its
    gradient is zero. Without a mask infinities and NaN give what the formula gives, as ATen's
    softmax: a row of -inf, one with +inf or with NaN is NaN. Bias and mask have the shape of `x`
    (`kiln.broadcast` makes one).

    ```mlir
    %y = kiln.softmax %x bias %b mask %m {scale = 0.125 : f32}
        : tensor<?x256xbf16>, tensor<?x256xf32>, tensor<?x256xi1> -> tensor<?x256xbf16>
    ```
  }];
  let arguments = (ins Kiln_FloatTensor:$input, Optional<Kiln_FloatTensor>:$bias,
                       Optional<Kiln_BoolTensor>:$mask,
                       DefaultValuedAttr<F32Attr, "1.0f">:$scale);
  let results = (outs Kiln_FloatTensor:$output);
  let assemblyFormat = [{
    $input (`bias` $bias^)? (`mask` $mask^)? attr-dict `:`
    custom<OptionalTypes>(ref($bias), ref($mask), type($input), type($bias), type($mask))
    `->` type($output)
  }];
  let function = [{
func.func @softmax(%x: $x) -> $x {
  %y = kiln.softmax %x : $x -> $x
  return %y : $x
}
}];
}
