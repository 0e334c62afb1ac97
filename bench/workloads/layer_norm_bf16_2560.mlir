// LayerNorm as ATen has it in bf16: its weights are bf16 too.
func.func @layer_norm(%x: tensor<?x2560xbf16>, %gamma: tensor<2560xbf16>, %beta: tensor<2560xbf16>)
    -> (tensor<?x2560xbf16>, tensor<?xf32> {kiln.gradient = false}, tensor<?xf32> {kiln.gradient = false}) {
  %y, %mean, %rstd = kiln.layer_norm %x, %gamma, %beta
      : (tensor<?x2560xbf16>, tensor<2560xbf16>, tensor<2560xbf16>)
      -> (tensor<?x2560xbf16>, tensor<?xf32>, tensor<?xf32>)
  return %y, %mean, %rstd : tensor<?x2560xbf16>, tensor<?xf32>, tensor<?xf32>
}
