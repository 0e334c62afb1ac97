func.func @layer_norm(%in0: tensor<?x256xf32> {kiln.gradient = false}, %in1: tensor<256xf32> {kiln.gradient = false}, %in2: tensor<256xf32> {kiln.gradient = false}) -> (tensor<?x256xbf16> {kiln.name = "out0"}) {
  %0:3 = kiln.layer_norm %in0, %in1, %in2 {eps = 1.000000000e-05 : f32} : (tensor<?x256xf32>, tensor<256xf32>, tensor<256xf32>) -> (tensor<?x256xf32>, tensor<?xf32>, tensor<?xf32>)
  %1 = arith.truncf %0#0 : tensor<?x256xf32> to tensor<?x256xbf16>
  return %1 : tensor<?x256xbf16>
}
