func.func @add_gated_scaled_normed(%in0: tensor<?x?x?x64xbf16> {kiln.gradient = false}, %in1: tensor<?x?x?x64xbf16> {kiln.gradient = false}, %in2: tensor<64xf32> {kiln.gradient = false}, %in3: tensor<?x?x?x64xbf16> {kiln.gradient = false}, %in4: tensor<64xf32> {kiln.gradient = false}, %in5: tensor<?x?x64xbf16> {kiln.gradient = false}, %in6: tensor<64xf32> {kiln.gradient = false}, %in7: tensor<64xf32> {kiln.gradient = false}) -> (tensor<?x?x?x64xbf16> {kiln.name = "out0"}, tensor<?x?x?x64xbf16> {kiln.name = "out1"}) {
  %0 = arith.extf %in3 : tensor<?x?x?x64xbf16> to tensor<?x?x?x64xf32>
  %1 = kiln.broadcast %in4 dims [3] like %in0 : tensor<64xf32>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xf32>
  %2 = arith.addf %0, %1 : tensor<?x?x?x64xf32>
  %3 = kiln.sigmoid %2 : tensor<?x?x?x64xf32> -> tensor<?x?x?x64xf32>
  %4 = arith.extf %in1 : tensor<?x?x?x64xbf16> to tensor<?x?x?x64xf32>
  %5 = kiln.broadcast %in2 dims [3] like %in0 : tensor<64xf32>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xf32>
  %6 = arith.addf %4, %5 : tensor<?x?x?x64xf32>
  %7 = arith.mulf %3, %6 : tensor<?x?x?x64xf32>
  %8 = arith.extf %in5 : tensor<?x?x64xbf16> to tensor<?x?x64xf32>
  %9 = kiln.broadcast %8 dims [0, 2, 3] like %in0 : tensor<?x?x64xf32>, tensor<?x?x?x64xbf16> -> tensor<?x?x?x64xf32>
  %10 = arith.mulf %9, %7 : tensor<?x?x?x64xf32>
  %11 = arith.extf %in0 : tensor<?x?x?x64xbf16> to tensor<?x?x?x64xf32>
  %12 = arith.addf %11, %10 : tensor<?x?x?x64xf32>
  %13 = arith.truncf %12 : tensor<?x?x?x64xf32> to tensor<?x?x?x64xbf16>
  %14 = arith.extf %13 : tensor<?x?x?x64xbf16> to tensor<?x?x?x64xf32>
  %15:3 = kiln.layer_norm %14, %in6, %in7 {eps = 1.000000000e-05 : f32} : (tensor<?x?x?x64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<?x?x?x64xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>)
  %16 = arith.truncf %15#0 : tensor<?x?x?x64xf32> to tensor<?x?x?x64xbf16>
  return %13, %16 : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>
}
