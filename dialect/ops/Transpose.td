def Kiln_TransposeOp : Kiln_ElementaryOp<"transpose"> {
  let summary = "Another order of the dimensions";
  let description = [{
    Dimension k of the result is dimension `permutation[k]` of the input:
    `y[i_p0, i_p1, ...] = x[i_0, i_1, ...]`. A kernel stores, or loads, with other strides. Where the
    last dimension stays the last, whole vectors of columns move as before and a transpose costs
    nothing. Where it moves, as from channel-last to channel-first, tiles pass through shared memory
    so that runs of rows move together. The gradient is transposed back.

    ```mlir
    %y = kiln.transpose %x [1, 0, 2] : tensor<?x132x64xbf16> -> tensor<132x?x64xbf16>
    %z = kiln.transpose %x [2, 0, 1] : tensor<?x132x64xbf16> -> tensor<64x?x132xbf16>
    ```
  }];
  let arguments = (ins Kiln_Tensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs Kiln_Tensor:$output);
  let assemblyFormat = "$input $permutation attr-dict `:` type($input) `->` type($output)";
  let hasFolder = 1;
}
