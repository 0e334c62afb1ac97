// What follows the output product of a block in AlphaFold's pair stack: bias, dropout, residual.
func.func @bias_dropout_residual(%x: tensor<?x128xbf16>, %bias: tensor<128xbf16>,
    %r: tensor<?x128xbf16>, %seed: tensor<i64>, %offset: tensor<i64>) -> tensor<?x128xbf16> {
  %xf = arith.extf %x : tensor<?x128xbf16> to tensor<?x128xf32>
  %rf = arith.extf %r : tensor<?x128xbf16> to tensor<?x128xf32>
  %bf = arith.extf %bias : tensor<128xbf16> to tensor<128xf32>
  %b = kiln.broadcast %bf dims [1] like %xf
      : tensor<128xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
  %t = arith.addf %xf, %b : tensor<?x128xf32>
  %d = kiln.dropout %t, %seed, %offset p 0.25 : tensor<?x128xf32> -> tensor<?x128xf32>
  %s = arith.addf %d, %rf : tensor<?x128xf32>
  %z = arith.truncf %s : tensor<?x128xf32> to tensor<?x128xbf16>
  return %z : tensor<?x128xbf16>
}
