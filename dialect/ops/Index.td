def Kiln_IndexOp : Kiln_FreeOp<"index"> {
  let summary = "The index of each element along one dimension";
  let description = [{
    `y[i0, i1, ...] = i_dim`, in i32 or i64. Where the result has dynamic sizes, they are those of
    `like`, whose elements are not read. Nothing is stored unless the result is returned: a kernel
    knows where it is. The row family executes the index of the last dimension, and that of the
    first if it is the only leading one. An integer has no gradient.

    ```mlir
    %column = kiln.index dim 1 like %x : tensor<?x128xbf16> -> tensor<?x128xi32>
    %row = kiln.index dim 0 -> tensor<4x8xi64>
    ```
  }];
  let arguments = (ins I64Attr:$dim, Optional<Kiln_Tensor>:$like);
  let results = (outs Kiln_IndexTensor:$output);
  let assemblyFormat = [{
    `dim` $dim (`like` $like^ `:` type($like))? attr-dict `->` type($output)
  }];
}
