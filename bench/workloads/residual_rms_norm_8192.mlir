// A block's residual and the norm of the next: both are needed, the sum for the next residual.
func.func @residual_rms_norm(%x: tensor<?x8192xbf16>, %r: tensor<?x8192xbf16>, %gamma: tensor<8192xbf16>)
    -> (tensor<?x8192xbf16>, tensor<?x8192xbf16>, tensor<?xf32>) {
  %z = arith.addf %x, %r : tensor<?x8192xbf16>
  %y, %rstd = kiln.rms_norm %z, %gamma
      : (tensor<?x8192xbf16>, tensor<8192xbf16>) -> (tensor<?x8192xbf16>, tensor<?xf32>)
  return %z, %y, %rstd : tensor<?x8192xbf16>, tensor<?x8192xbf16>, tensor<?xf32>
}
