def Kiln_GatherOp : Kiln_NamedOp<"gather"> {
  let summary = "Rows of a table by their numbers: an embedding";
  let description = [{
    `y[i..., :] = table[index[i...], :]`. An index outside the table reads nothing: its row is NaN,
    so that the mistake is seen. `padding_index` marks rows that stand for nothing: they are zero,
    whether the table has that row or not, and no gradient flows to it. In kernels the table lies in
    memory; the indices may be computed. The gradient is `kiln.segment_sum`, of gradients rounded to
    the type of the table.

    ```mlir
    %y = kiln.gather %table, %token : tensor<50304x1280xbf16>, tensor<?xi32> -> tensor<?x1280xbf16>
    ```
  }];
  let arguments = (ins Kiln_FloatTensor:$table, Kiln_IndexTensor:$index,
                       OptionalAttr<I64Attr>:$padding_index);
  let results = (outs Kiln_FloatTensor:$output);
  let assemblyFormat = [{
    $table `,` $index attr-dict `:` type($table) `,` type($index) `->` type($output)
  }];
}
