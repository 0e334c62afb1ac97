func.func @add_scaled_normed(%in0: tensor<?x?x256xbf16> {kiln.gradient = false}, %in1: tensor<?x?x256xbf16> {kiln.gradient = false}, %in2: tensor<256xf32> {kiln.gradient = false}, %in3: tensor<?x256xbf16> {kiln.gradient = false}, %in4: tensor<256xf32> {kiln.gradient = false}, %in5: tensor<256xf32> {kiln.gradient = false}) -> (tensor<?x?x256xbf16> {kiln.name = "out0"}, tensor<?x?x256xbf16> {kiln.name = "out1"}) {
  %0 = arith.extf %in1 : tensor<?x?x256xbf16> to tensor<?x?x256xf32>
  %1 = kiln.broadcast %in2 dims [2] like %in0 : tensor<256xf32>, tensor<?x?x256xbf16> -> tensor<?x?x256xf32>
  %2 = arith.addf %0, %1 : tensor<?x?x256xf32>
  %3 = arith.extf %in3 : tensor<?x256xbf16> to tensor<?x256xf32>
  %4 = kiln.broadcast %3 dims [1, 2] like %in0 : tensor<?x256xf32>, tensor<?x?x256xbf16> -> tensor<?x?x256xf32>
  %5 = arith.mulf %4, %2 : tensor<?x?x256xf32>
  %6 = arith.extf %in0 : tensor<?x?x256xbf16> to tensor<?x?x256xf32>
  %7 = arith.addf %6, %5 : tensor<?x?x256xf32>
  %8 = arith.truncf %7 : tensor<?x?x256xf32> to tensor<?x?x256xbf16>
  %9 = arith.extf %8 : tensor<?x?x256xbf16> to tensor<?x?x256xf32>
  %10:3 = kiln.layer_norm %9, %in4, %in5 {eps = 1.000000000e-05 : f32} : (tensor<?x?x256xf32>, tensor<256xf32>, tensor<256xf32>) -> (tensor<?x?x256xf32>, tensor<?x?xf32>, tensor<?x?xf32>)
  %11 = arith.truncf %10#0 : tensor<?x?x256xf32> to tensor<?x?x256xbf16>
  return %8, %11 : tensor<?x?x256xbf16>, tensor<?x?x256xbf16>
}
