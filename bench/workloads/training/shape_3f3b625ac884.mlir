func.func @add_normed(%in0: tensor<?x256xbf16> {kiln.gradient = false}, %in1: tensor<?x256xbf16> {kiln.gradient = false}, %in2: tensor<256xf32> {kiln.gradient = false}, %in3: tensor<256xf32> {kiln.gradient = false}, %in4: tensor<256xf32> {kiln.gradient = false}) -> (tensor<?x256xbf16> {kiln.name = "out0"}, tensor<?x256xbf16> {kiln.name = "out1"}) {
  %0 = arith.extf %in1 : tensor<?x256xbf16> to tensor<?x256xf32>
  %1 = kiln.broadcast %in2 dims [1] like %in0 : tensor<256xf32>, tensor<?x256xbf16> -> tensor<?x256xf32>
  %2 = arith.addf %0, %1 : tensor<?x256xf32>
  %3 = arith.extf %in0 : tensor<?x256xbf16> to tensor<?x256xf32>
  %4 = arith.addf %3, %2 : tensor<?x256xf32>
  %5 = arith.truncf %4 : tensor<?x256xf32> to tensor<?x256xbf16>
  %6 = arith.extf %5 : tensor<?x256xbf16> to tensor<?x256xf32>
  %7:3 = kiln.layer_norm %6, %in3, %in4 {eps = 1.000000000e-05 : f32} : (tensor<?x256xf32>, tensor<256xf32>, tensor<256xf32>) -> (tensor<?x256xf32>, tensor<?xf32>, tensor<?xf32>)
  %8 = arith.truncf %7#0 : tensor<?x256xf32> to tensor<?x256xbf16>
  return %5, %8 : tensor<?x256xbf16>, tensor<?x256xbf16>
}
