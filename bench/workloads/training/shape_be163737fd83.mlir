func.func @add(%in0: tensor<?x128xbf16> {kiln.gradient = false}, %in1: tensor<?x128xbf16> {kiln.gradient = false}, %in2: tensor<128xf32> {kiln.gradient = false}) -> (tensor<?x128xbf16> {kiln.name = "out0"}) {
  %0 = arith.extf %in1 : tensor<?x128xbf16> to tensor<?x128xf32>
  %1 = kiln.broadcast %in2 dims [1] like %in0 : tensor<128xf32>, tensor<?x128xbf16> -> tensor<?x128xf32>
  %2 = arith.addf %0, %1 : tensor<?x128xf32>
  %3 = arith.extf %in0 : tensor<?x128xbf16> to tensor<?x128xf32>
  %4 = arith.addf %3, %2 : tensor<?x128xf32>
  %5 = arith.truncf %4 : tensor<?x128xf32> to tensor<?x128xbf16>
  return %5 : tensor<?x128xbf16>
}
