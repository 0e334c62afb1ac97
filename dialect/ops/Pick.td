def Kiln_PickOp : Kiln_ElementaryOp<"pick"> {
  let summary = "One element of each row, chosen by an index";
  let description = [{
    `y[i...] = x[i..., index[i...]]` for an index from 0 to the width - 1; any other gives NaN, or 0
    where the elements are integers. The gradient is 0 but at the index. A kernel that reads `x` and
    `index` loads the elements; where it computes them, it compares every column with the index.

    ```mlir
    %chosen = kiln.pick %logits, %target : tensor<?x50304xbf16>, tensor<?xi64> -> tensor<?xbf16>
    ```
  }];
  let arguments = (ins Kiln_Tensor:$input, Kiln_IndexTensor:$index);
  let results = (outs Kiln_Tensor:$output);
  let assemblyFormat = [{
    $input `,` $index attr-dict `:` type($input) `,` type($index) `->` type($output)
  }];
}
