// RMSNorm as ATen has it in bf16: its weight is bf16 too.
func.func @rms_norm(%x: tensor<?x1280xbf16>, %gamma: tensor<1280xbf16>)
    -> (tensor<?x1280xbf16>, tensor<?xf32> {kiln.gradient = false}) {
  %y, %rstd = kiln.rms_norm %x, %gamma
      : (tensor<?x1280xbf16>, tensor<1280xbf16>) -> (tensor<?x1280xbf16>, tensor<?xf32>)
  return %y, %rstd : tensor<?x1280xbf16>, tensor<?xf32>
}
