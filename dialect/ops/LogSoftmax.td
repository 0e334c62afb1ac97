def Kiln_LogSoftmaxOp : Kiln_NamedOp<"log_softmax"> {
  let summary = "Logarithm of the softmax of each row";
  let description = [{
    `y = x - max(x) - log(sum(exp(x - max(x))))` over the last dimension. Computed in fp32 and
    rounded to the element type of the result, which may differ from the input's. An element of
    -inf gives -inf; a row with +inf or NaN, or of -inf throughout, gives NaN as the formula does.
    The gradient is `dx = dy - exp(y) sum(dy)`.
    Source: Bridle, Probabilistic Interpretation of Feedforward Classification Network Outputs
    (1990).

    ```mlir
    %y = kiln.log_softmax %x : tensor<?x1000xbf16> -> tensor<?x1000xf32>
    ```
  }];
  let arguments = (ins Kiln_FloatTensor:$input);
  let results = (outs Kiln_FloatTensor:$output);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($output)";
  let function = [{
func.func @log_softmax(%x: $x) -> $x {
  %y = kiln.log_softmax %x : $x -> $x
  return %y : $x
}
}];
}
