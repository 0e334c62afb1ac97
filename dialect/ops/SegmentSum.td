def Kiln_SegmentSumOp : Kiln_ElementaryOp<"segment_sum"> {
  let summary = "Adds up the rows that name the same segment";
  let description = [{
    `y[v, :] = sum of x[i..., :] where index[i...] = v`, in fp32 and in an order that depends only
    on the indices, so bitwise the same from run to run. Rows whose index is no segment, or is
    `padding_index`, are left out; a segment without rows is zero. Where the number of segments is
    known at run time only, it is that of `like`, whose elements are not read. A kernel lists the
    rows of each segment, another adds them up.

    ```mlir
    %d = kiln.segment_sum %dy, %token
        : tensor<?x1280xbf16>, tensor<?xi32> -> tensor<50304x1280xf32>
    ```
  }];
  let arguments = (ins Kiln_FloatTensor:$input, Kiln_IndexTensor:$index,
                       Optional<Kiln_Tensor>:$like, OptionalAttr<I64Attr>:$padding_index);
  let results = (outs Kiln_FloatTensor:$output);
  let assemblyFormat = [{
    $input `,` $index (`like` $like^)? attr-dict `:` type($input) `,` type($index)
    (`,` type($like)^)? `->` type($output)
  }];
}
