def Kiln_PartnerOp : Kiln_ElementaryOp<"partner"> {
  let summary = "The other element of each pair of columns";
  let description = [{
    `y[..., j] = x[..., partner(j)]` for the pairs of columns that `#kiln.pairs` describes; columns
    that belong to no pair are copied. Its own inverse, and its own gradient. A kernel reads its
    inputs in that order as well; what it computes of them it computes for both columns of a pair,
    values of rows once. The partners of random numbers and of indices of columns are not executed.

    ```mlir
    %other = kiln.partner %x pairs <half_split, 64> 
        : tensor<?x128xbf16> -> tensor<?x128xbf16>
    ```
  }];
  let arguments = (ins Kiln_Tensor:$input, Kiln_PairsAttr:$pairs);
  let results = (outs Kiln_Tensor:$output);
  let assemblyFormat = "$input `pairs` $pairs attr-dict `:` type($input) `->` type($output)";
  let hasFolder = 1;
}
