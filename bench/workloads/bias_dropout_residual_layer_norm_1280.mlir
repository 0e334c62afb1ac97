// Bias, dropout, residual and the LayerNorm of the next block: both the sum and the norm are kept.
func.func @bias_dropout_residual_layer_norm(%x: tensor<?x1280xbf16>, %bias: tensor<1280xbf16>,
    %r: tensor<?x1280xbf16>, %gamma: tensor<1280xbf16>, %beta: tensor<1280xbf16>,
    %seed: tensor<i64>, %offset: tensor<i64>)
    -> (tensor<?x1280xbf16>, tensor<?x1280xbf16>, tensor<?xf32>, tensor<?xf32>) {
  %xf = arith.extf %x : tensor<?x1280xbf16> to tensor<?x1280xf32>
  %rf = arith.extf %r : tensor<?x1280xbf16> to tensor<?x1280xf32>
  %bf = arith.extf %bias : tensor<1280xbf16> to tensor<1280xf32>
  %b = kiln.broadcast %bf dims [1] like %xf
      : tensor<1280xf32>, tensor<?x1280xf32> -> tensor<?x1280xf32>
  %t = arith.addf %xf, %b : tensor<?x1280xf32>
  %d = kiln.dropout %t, %seed, %offset p 0.1 : tensor<?x1280xf32> -> tensor<?x1280xf32>
  %s = arith.addf %d, %rf : tensor<?x1280xf32>
  %z = arith.truncf %s : tensor<?x1280xf32> to tensor<?x1280xbf16>
  %y, %mean, %rstd = kiln.layer_norm %z, %gamma, %beta
      : (tensor<?x1280xbf16>, tensor<1280xbf16>, tensor<1280xbf16>)
      -> (tensor<?x1280xbf16>, tensor<?xf32>, tensor<?xf32>)
  return %z, %y, %mean, %rstd
      : tensor<?x1280xbf16>, tensor<?x1280xbf16>, tensor<?xf32>, tensor<?xf32>
}
