def Kiln_PartnerOp : Kiln_ElementaryOp<"partner"> {
  let summary = "The other element of each pair of columns";
  let description = [{
    `y[..., j] = x[..., partner(j)]` for the pairs of columns that `#kiln.pairs` describes; columns
    that belong to no pair are copied. Its own inverse, and its own gradient. A kernel reads the
    columns of its inputs in that order; what it computes from them it computes in both orders, and
    values of rows only once. Only a permutation of columns of columns' indices, or of random
    numbers, is not executed.

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
