func.func @add_scaled_normed(%in0: tensor<?x?x?x64xbf16> {kiln.gradient = false}, %in1: tensor<?x?x?x64xbf16> {kiln.gradient = false}, %in2: tensor<64xf32> {kiln.gradient = false}, %in3: tensor<?x?x64xbf16> {kiln.gradient = false}, %in4: tensor<64xf32> {kiln.gradient = false}, %in5: tensor<64xf32> {kiln.gradient = false}) -> (tensor<?x?x?x64xbf16> {kiln.name = "out0"}, tensor<?x?x?x64xbf16> {kiln.name = "out1"}) {
  %0 = arith.extf %in1 : tensor<?x?x?x64xbf16> to tensor<?x?x?x64xf32>
  %1 = kiln.broadcast %in2 dims [3] like %in0 : tensor<64xf32>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xf32>
  %2 = arith.addf %0, %1 : tensor<?x?x?x64xf32>
  %3 = arith.extf %in3 : tensor<?x?x64xbf16> to tensor<?x?x64xf32>
  %4 = kiln.broadcast %3 dims [0, 2, 3] like %in0 : tensor<?x?x64xf32>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xf32>
  %5 = arith.mulf %4, %2 : tensor<?x?x?x64xf32>
  %6 = arith.extf %in0 : tensor<?x?x?x64xbf16> to tensor<?x?x?x64xf32>
  %7 = arith.addf %6, %5 : tensor<?x?x?x64xf32>
  %8 = arith.truncf %7 : tensor<?x?x?x64xf32> to tensor<?x?x?x64xbf16>
  %9 = arith.extf %8 : tensor<?x?x?x64xbf16> to tensor<?x?x?x64xf32>
  %10:3 = kiln.layer_norm %9, %in4, %in5 {eps = 1.000000000e-05 : f32} : (tensor<?x?x?x64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>)
  %11 = arith.truncf %10#0 : tensor<?x?x?x64xf32> to tensor<?x?x?x64xbf16>
  return %8, %11 : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
}
