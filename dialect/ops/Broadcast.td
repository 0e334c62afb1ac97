def Kiln_BroadcastOp : Kiln_FreeOp<"broadcast", [
    DeclareOpInterfaceMethods<KilnOpInterface, ["shapeSource"]>]> {
  let summary = "Repeats a tensor along new dimensions";
  let description = [{
    Dimension i of the input becomes dimension `dims[i]` of the result; sizes agree, or the
    input's is 1. `dims` increase. Where the result has dynamic sizes, they are those of `like`.
    Nothing is copied: a kernel reads the input where it needs it.

    ```mlir
    %g = kiln.broadcast %gamma dims [1] like %x
        : tensor<128xf32>, tensor<?x128xbf16> -> tensor<?x128xf32>
    ```
  }];
  let arguments = (ins Kiln_Tensor:$input, DenseI64ArrayAttr:$dims, Optional<Kiln_Tensor>:$like);
  let results = (outs Kiln_Tensor:$output);
  let assemblyFormat = [{
    $input `dims` $dims (`like` $like^)? attr-dict `:` type($input) (`,` type($like)^)?
    `->` type($output)
  }];
  let hasFolder = 1;
}
