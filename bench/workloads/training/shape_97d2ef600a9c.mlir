func.func @relu_backward(%in0: tensor<?x1024xbf16> {kiln.gradient = false}, %in1: tensor<?x1024xbf16> {kiln.gradient = false}) -> (tensor<?x1024xbf16> {kiln.name = "out0"}, tensor<1024xf32> {kiln.name = "out1"}) {
  %0 = arith.constant dense<0.000000000e+00> : tensor<f32>
  %1 = arith.extf %in1 : tensor<?x1024xbf16> to tensor<?x1024xf32>
  %2 = kiln.broadcast %0 dims [] like %in0 : tensor<f32>, tensor<?x1024xbf16> -> tensor<?x1024xf32>
  %3 = arith.cmpf ogt, %1, %2 : tensor<?x1024xf32>
  %4 = arith.constant dense<0.000000000e+00> : tensor<f32>
  %5 = arith.extf %in0 : tensor<?x1024xbf16> to tensor<?x1024xf32>
  %6 = kiln.broadcast %4 dims [] like %in0 : tensor<f32>, tensor<?x1024xbf16> -> tensor<?x1024xf32>
  %7 = arith.select %3, %5, %6 : tensor<?x1024xi1>, tensor<?x1024xf32>
  %8 = kiln.reduce sum %7 dims [0] : tensor<?x1024xf32> -> tensor<1024xf32>
  %9 = arith.truncf %7 : tensor<?x1024xf32> to tensor<?x1024xbf16>
  return %9, %8 : tensor<?x1024xbf16>, tensor<1024xf32>
}
