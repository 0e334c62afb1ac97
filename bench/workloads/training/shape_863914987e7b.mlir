func.func @layer_norm(%x: tensor<?x384xf32>, %gamma: tensor<384xf32>, %beta: tensor<384xf32>) -> (tensor<?x384xf32>, tensor<?xf32> {kiln.gradient = false}, tensor<?xf32> {kiln.gradient = false}) {
  %y, %mean, %rstd = kiln.layer_norm %x, %gamma, %beta {eps = 0.000000000e+00 : f32}
      : (tensor<?x384xf32>, tensor<384xf32>, tensor<384xf32>) -> (tensor<?x384xf32>, tensor<?xf32>, tensor<?xf32>)
  return %y, %mean, %rstd : tensor<?x384xf32>, tensor<?xf32>, tensor<?xf32>
}
