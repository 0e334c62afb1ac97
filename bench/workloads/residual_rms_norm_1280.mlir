// A block's residual and the norm of the next: both are needed, the sum for the next residual.
func.func @residual_rms_norm(%x: tensor<?x1280xbf16>, %r: tensor<?x1280xbf16>, %gamma: tensor<1280xbf16>)
    -> (tensor<?x1280xbf16>, tensor<?x1280xbf16>, tensor<?xf32>) {
  %z = arith.addf %x, %r : tensor<?x1280xbf16>
  %y, %rstd = kiln.rms_norm %z, %gamma
      : (tensor<?x1280xbf16>, tensor<1280xbf16>) -> (tensor<?x1280xbf16>, tensor<?xf32>)
  return %z, %y, %rstd : tensor<?x1280xbf16>, tensor<?x1280xbf16>, tensor<?xf32>
}
