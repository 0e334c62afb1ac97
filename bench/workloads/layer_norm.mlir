// LayerNorm as AlphaFold's pair representation calls it; mean and rstd are kept for the backward.
func.func @layer_norm(%x: tensor<?x128xbf16>, %gamma: tensor<128xf32>, %beta: tensor<128xf32>)
    -> (tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>) {
  %y, %mean, %rstd = kiln.layer_norm %x, %gamma, %beta {eps = 1.0e-05 : f32}
      : (tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32>)
      -> (tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>)
  return %y, %mean, %rstd : tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>
}
