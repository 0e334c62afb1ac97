def Kiln_ReduceOp : Kiln_ElementaryOp<"reduce"> {
  let summary = "Combines the elements along some dimensions";
  let description = [{
    `sum`, `mean`, `max` or `min` over `dims`, which disappear from the shape. Accumulates in
    fp32 and in a fixed order. `max` and `min` of a row with a NaN are NaN. The row family executes
    any kind over the last dimension, and `sum` over all leading or over all dimensions, also of
    values of rows. `sum` over some of the leading dimensions is a kernel of its own, which reads
    what it sums from memory.

    ```mlir
    %row = kiln.reduce mean %x dims [1] : tensor<?x128xf32> -> tensor<?xf32>
    %col = kiln.reduce sum %x dims [0] : tensor<?x128xf32> -> tensor<128xf32>
    ```
  }];
  let arguments = (ins Kiln_ReduceKindAttr:$kind, Kiln_FloatTensor:$input,
                       DenseI64ArrayAttr:$dims);
  let results = (outs Kiln_FloatTensor:$output);
  let assemblyFormat = [{
    $kind $input `dims` $dims attr-dict `:` type($input) `->` type($output)
  }];
  let hasFolder = 1;
  let extraClassDeclaration = [{
    /// Only the last dimension; all but the last; every dimension (of a tensor of rank > 1).
    bool isOverLast();
    bool isOverLeading();
    bool isOverAll();
  }];
}
