func.func @triangle_side_backward(%in0: tensor<?x?x256xbf16> {kiln.gradient = false}, %in1: tensor<?x?x256xbf16> {kiln.gradient = false}, %in2: tensor<?x?x256xbf16> {kiln.gradient = false}, %in3: tensor<?xf32> {kiln.gradient = false}, %in4: tensor<?xf32> {kiln.gradient = false}) -> (tensor<?x?x256xbf16> {kiln.name = "out0"}, tensor<?x?x256xbf16> {kiln.name = "out1"}, tensor<?x?xf32> {kiln.name = "out2"}, tensor<?x?xf32> {kiln.name = "out3"}) {
  %0 = arith.extf %in2 : tensor<?x?x256xbf16> to tensor<?x?x256xf32>
  %1 = kiln.broadcast %in4 dims [0] like %in0 : tensor<?xf32>, tensor<?x?x256xbf16> -> tensor<?x?x256xf32>
  %2 = arith.addf %0, %1 : tensor<?x?x256xf32>
  %3 = kiln.sigmoid %2 : tensor<?x?x256xf32> -> tensor<?x?x256xf32>
  %4 = arith.extf %in0 : tensor<?x?x256xbf16> to tensor<?x?x256xf32>
  %5 = arith.mulf %4, %3 : tensor<?x?x256xf32>
  %6 = arith.constant dense<1.000000000e+00> : tensor<f32>
  %7 = kiln.broadcast %6 dims [] like %in0 : tensor<f32>, tensor<?x?x256xbf16> -> tensor<?x?x256xf32>
  %8 = arith.subf %7, %3 : tensor<?x?x256xf32>
  %9 = arith.mulf %5, %8 : tensor<?x?x256xf32>
  %10 = arith.extf %in1 : tensor<?x?x256xbf16> to tensor<?x?x256xf32>
  %11 = kiln.broadcast %in3 dims [0] like %in0 : tensor<?xf32>, tensor<?x?x256xbf16> -> tensor<?x?x256xf32>
  %12 = arith.addf %10, %11 : tensor<?x?x256xf32>
  %13 = arith.mulf %9, %12 : tensor<?x?x256xf32>
  %14 = kiln.reduce sum %5 dims [2] : tensor<?x?x256xf32> -> tensor<?x?xf32>
  %15 = kiln.reduce sum %13 dims [2] : tensor<?x?x256xf32> -> tensor<?x?xf32>
  %16 = arith.truncf %5 : tensor<?x?x256xf32> to tensor<?x?x256xbf16>
  %17 = arith.truncf %13 : tensor<?x?x256xf32> to tensor<?x?x256xbf16>
  return %16, %17, %14, %15 : tensor<?x?x256xbf16>, tensor<?x?x256xbf16>, tensor<?x?xf32>, tensor<?x?xf32>
}
