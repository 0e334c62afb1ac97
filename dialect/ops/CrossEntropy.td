def Kiln_CrossEntropyOp : Kiln_NamedOp<"cross_entropy"> {
  let summary = "Cross-entropy of each row of logits with the index of its class";
  let description = [{
    With `C` logits `x` in a row, `t` its target (i32 or i64) and
    `lse = max(x) + log(sum(exp(x - max(x))))`:

    `loss = (1 - label_smoothing) (lse - x[t]) + label_smoothing (lse - mean(x)) + z_loss lse^2`

    Both results are fp32, one a row; everything is computed in fp32, differences from the largest
    logit. A row whose target is `ignore_index` has the loss 0 (its `lse` is what it is). A row
    whose target is neither that nor from 0 to C - 1 has the loss NaN, and nothing is read out of
    bounds. Infinities and NaN give what the formula gives.

    `label_smoothing` is from 0 to 1, `z_loss` is not negative. The gradient, with
    `p = exp((x - max(x)) - log(sum(exp(x - max(x)))))` from logits and those two numbers a row (of
    large logits `lse`, their sum in fp32, would have lost the digits that count),
    `dx = dloss (p (1 + 2 z_loss lse) - (1 - label_smoothing) onehot(t) - label_smoothing / C)`,
    is 0 in ignored rows and NaN in those out of range. `kiln-differentiate` with `together` makes
    a function of loss and gradient, which is one kernel.
    Sources: Szegedy et al., Rethinking the Inception Architecture (2015), for label smoothing;
    Chowdhery et al., PaLM (2022), for the z loss.

    ```mlir
    // The mean over the rows that count: the quotient of two sums.
    %loss, %lse = kiln.cross_entropy %x, %t {ignore_index = -1 : i64}
        : (tensor<?x1000xbf16>, tensor<?xi64>) -> (tensor<?xf32>, tensor<?xf32>)
    %ignore = arith.constant dense<-1> : tensor<i64>
    %ignored = kiln.broadcast %ignore dims [] like %t : tensor<i64>, tensor<?xi64> -> tensor<?xi64>
    %counts = arith.cmpi ne, %t, %ignored : tensor<?xi64>
    %weight = arith.uitofp %counts : tensor<?xi1> to tensor<?xf32>
    %sum = kiln.reduce sum %loss dims [0] : tensor<?xf32> -> tensor<f32>
    %count = kiln.reduce sum %weight dims [0] : tensor<?xf32> -> tensor<f32>
    %mean = arith.divf %sum, %count : tensor<f32>
    ```
  }];
  let arguments = (ins Kiln_FloatTensor:$input, Kiln_IndexTensor:$target,
                       DefaultValuedAttr<I64Attr, "-100">:$ignore_index,
                       DefaultValuedAttr<F32Attr, "0.0f">:$label_smoothing,
                       DefaultValuedAttr<F32Attr, "0.0f">:$z_loss);
  let results = (outs Kiln_FloatTensor:$loss, Kiln_FloatTensor:$lse);
  let assemblyFormat = "$input `,` $target attr-dict `:` functional-type(operands, results)";
  let function = [{
func.func @cross_entropy(%x: $x, %target: $index) -> ($each, $each {kiln.gradient = false}) {
  %loss, %lse = kiln.cross_entropy %x, %target : ($x, $index) -> ($each, $each)
  return %loss, %lse : $each, $each
}
}];
}
