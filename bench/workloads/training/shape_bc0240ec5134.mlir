func.func @dropout_backward(%dy: tensor<?x1024xf32>, %mask: tensor<?x1024xi1>) -> tensor<?x1024xf32> {
  %kept = arith.uitofp %mask : tensor<?x1024xi1> to tensor<?x1024xf32>
  %masked = arith.mulf %dy, %kept : tensor<?x1024xf32>
  %scale = arith.constant dense<1.111111164e+00> : tensor<f32>
  %scales = kiln.broadcast %scale dims [] like %masked : tensor<f32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
  %dx = arith.mulf %masked, %scales : tensor<?x1024xf32>
  return %dx : tensor<?x1024xf32>
}
