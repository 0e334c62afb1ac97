func.func @layer_norm(%in0: tensor<?x128xf32> {kiln.gradient = false}, %in1: tensor<128xf32> {kiln.gradient = false}, %in2: tensor<128xf32> {kiln.gradient = false}) -> (tensor<?x128xbf16> {kiln.name = "out0"}) {
  %0:3 = kiln.layer_norm %in0, %in1, %in2 {eps = 1.000000000e-05 : f32} : (tensor<?x128xf32>, tensor<128xf32>, tensor<128xf32>) -> (tensor<?x128xf32>, tensor<?xf32>, tensor<?xf32>)
  %1 = arith.truncf %0#0 : tensor<?x128xf32> to tensor<?x128xbf16>
  return %1 : tensor<?x128xbf16>
}
