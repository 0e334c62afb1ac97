func.func @add_scaled_normed(%in0: tensor<?x128xbf16> {kiln.gradient = false}, %in1: tensor<?x128xbf16> {kiln.gradient = false}, %in2: tensor<128xf32> {kiln.gradient = false}, %in3: tensor<?xf32> {kiln.gradient = false}, %in4: tensor<128xf32> {kiln.gradient = false}, %in5: tensor<128xf32> {kiln.gradient = false}) -> (tensor<?x128xbf16> {kiln.name = "out0"}, tensor<?x128xbf16> {kiln.name = "out1"}) {
  %0 = arith.extf %in1 : tensor<?x128xbf16> to tensor<?x128xf32>
  %1 = kiln.broadcast %in2 dims [1] like %in0 : tensor<128xf32>, tensor<?x128xbf16> -> tensor<?x128xf32>
  %2 = arith.addf %0, %1 : tensor<?x128xf32>
  %3 = kiln.broadcast %in3 dims [0] like %in0 : tensor<?xf32>, tensor<?x128xbf16> -> tensor<?x128xf32>
  %4 = arith.mulf %3, %2 : tensor<?x128xf32>
  %5 = arith.extf %in0 : tensor<?x128xbf16> to tensor<?x128xf32>
  %6 = arith.addf %5, %4 : tensor<?x128xf32>
  %7 = arith.truncf %6 : tensor<?x128xf32> to tensor<?x128xbf16>
  %8 = arith.extf %7 : tensor<?x128xbf16> to tensor<?x128xf32>
  %9:3 = kiln.layer_norm %8, %in4, %in5 {eps = 1.000000000e-05 : f32} : (tensor<?x128xf32>, tensor<128xf32>, tensor<128xf32>) -> (tensor<?x128xf32>, tensor<?xf32>, tensor<?xf32>)
  %10 = arith.truncf %9#0 : tensor<?x128xf32> to tensor<?x128xbf16>
  return %7, %10 : tensor<?x128xbf16>, tensor<?x128xbf16>
}
