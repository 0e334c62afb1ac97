// The backward of LibTorch's native_dropout with p = 0.1, of elements taken as rows of 1024.
func.func @dropout_backward(%dy: tensor<?x1024xbf16>, %mask: tensor<?x1024xi1>)
    -> tensor<?x1024xbf16> {
  %kept = arith.uitofp %mask : tensor<?x1024xi1> to tensor<?x1024xf32>
  %wide = arith.extf %dy : tensor<?x1024xbf16> to tensor<?x1024xf32>
  %masked = arith.mulf %wide, %kept : tensor<?x1024xf32>
  %scale = arith.constant dense<1.111111164e+00> : tensor<f32>
  %scales = kiln.broadcast %scale dims [] like %masked
      : tensor<f32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
  %scaled = arith.mulf %masked, %scales : tensor<?x1024xf32>
  %dx = arith.truncf %scaled : tensor<?x1024xf32> to tensor<?x1024xbf16>
  return %dx : tensor<?x1024xbf16>
}
