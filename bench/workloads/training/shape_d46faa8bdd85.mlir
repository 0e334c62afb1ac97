func.func @point_attention(%in0: tensor<?x?x384xf32> {kiln.gradient = false}, %in1: tensor<?x?x384xf32> {kiln.gradient = false}, %in2: tensor<?x384xf32> {kiln.gradient = false}) -> (tensor<?x?x384xf32> {kiln.name = "out0"}) {
  %0 = arith.constant dense<5.773502692e-01> : tensor<f32>
  %1 = kiln.broadcast %0 dims [] like %in0 : tensor<f32>, tensor<?x?x384xf32> -> tensor<?x?x384xf32>
  %2 = arith.mulf %in1, %1 : tensor<?x?x384xf32>
  %3 = arith.addf %in0, %2 : tensor<?x?x384xf32>
  %4 = kiln.broadcast %in2 dims [1, 2] like %in0 : tensor<?x384xf32>, tensor<?x?x384xf32> -> tensor<?x?x384xf32>
  %5 = arith.addf %3, %4 : tensor<?x?x384xf32>
  %6 = kiln.softmax %5 : tensor<?x?x384xf32> -> tensor<?x?x384xf32>
  return %6 : tensor<?x?x384xf32>
}
