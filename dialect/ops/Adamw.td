def Kiln_AdamwOp : Kiln_NamedOp<"adamw"> {
  let summary = "One step of AdamW: Adam with decoupled weight decay";
  let description = [{
    With g = grad grad_scale and t = step (1 in the first step), element by element:

        exp_avg'    = beta1 exp_avg + (1 - beta1) g
        exp_avg_sq' = beta2 exp_avg_sq + (1 - beta2) g^2
        denominator = sqrt(exp_avg_sq') / sqrt(1 - beta2^t) + eps
        param'      = param (1 - lr weight_decay) - lr / (1 - beta1^t) exp_avg' / denominator
        ema'        = ema_decay ema + (1 - ema_decay) param'

    `param`, `exp_avg`, `exp_avg_sq` and `ema` are fp32 of one shape, `grad` fp32, bf16 or fp16;
    `lr`, `step` and `grad_scale` (the inverse of the loss scale times the clip factor) are fp32
    without dimensions, so that they may change on the device. Results are `param'`, `exp_avg'` and
    `exp_avg_sq'`; then, if asked for, `param'` rounded to bf16 or fp16; then, if `ema` is given,
    `ema'`. 1 - beta^t is computed without cancellation. An update has no gradient.
    Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization (2019); the formula and
    defaults are those of torch.optim.AdamW.

    ```mlir
    %p, %m, %v, %copy = kiln.adamw %p0, %g, %m0, %v0, %lr, %step, %scale {weight_decay = 0.1}
        : (tensor<?xf32>, tensor<?xbf16>, tensor<?xf32>, tensor<?xf32>, tensor<f32>, tensor<f32>,
           tensor<f32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xbf16>)
    ```
  }];
  let arguments = (ins Kiln_FloatTensor:$param, Kiln_FloatTensor:$grad, Kiln_FloatTensor:$exp_avg,
                       Kiln_FloatTensor:$exp_avg_sq, Kiln_FloatTensor:$lr, Kiln_FloatTensor:$step,
                       Kiln_FloatTensor:$grad_scale, Optional<Kiln_FloatTensor>:$ema,
                       DefaultValuedAttr<F64Attr, "0.9">:$beta1,
                       DefaultValuedAttr<F64Attr, "0.999">:$beta2,
                       DefaultValuedAttr<F64Attr, "1e-8">:$eps,
                       DefaultValuedAttr<F64Attr, "0.01">:$weight_decay,
                       OptionalAttr<F64Attr>:$ema_decay);
  let results = (outs Kiln_FloatTensor:$new_param, Kiln_FloatTensor:$new_exp_avg,
                      Kiln_FloatTensor:$new_exp_avg_sq, Variadic<Kiln_FloatTensor>:$others);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = [{
    NumbersTaken numbersTaken(unsigned operand); // no second moment and no step is below 0
    /// The rounded parameter and the new average of parameters; null if there is none.
    ::mlir::Value getCopy();
    ::mlir::Value getNewEma();
  }];
}
