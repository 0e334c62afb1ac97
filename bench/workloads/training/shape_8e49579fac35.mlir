func.func @layer_norm(%x: tensor<?x128xf32>, %gamma: tensor<128xf32>, %beta: tensor<128xf32>) -> (tensor<?x128xf32>, tensor<?xf32> {kiln.gradient = false}, tensor<?xf32> {kiln.gradient = false}) {
  %y, %mean, %rstd = kiln.layer_norm %x, %gamma, %beta {eps = 9.999999747e-06 : f32}
      : (tensor<?x128xf32>, tensor<128xf32>, tensor<128xf32>) -> (tensor<?x128xf32>, tensor<?xf32>, tensor<?xf32>)
  return %y, %mean, %rstd : tensor<?x128xf32>, tensor<?xf32>, tensor<?xf32>
}
