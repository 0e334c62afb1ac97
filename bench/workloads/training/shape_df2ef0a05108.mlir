func.func @sigmoid_gate(%in0: tensor<?x64xbf16> {kiln.gradient = false}, %in1: tensor<?x64xbf16> {kiln.gradient = false, kiln.layout = #kiln.layout<strides = [256, 1]>}, %in2: tensor<64xf32> {kiln.gradient = false}) -> (tensor<?x64xbf16> {kiln.name = "out0"}) {
  %0 = arith.extf %in1 : tensor<?x64xbf16> to tensor<?x64xf32>
  %1 = kiln.broadcast %in2 dims [1] like %in0 : tensor<64xf32>, tensor<?x64xbf16> -> tensor<?x64xf32>
  %2 = arith.addf %0, %1 : tensor<?x64xf32>
  %3 = kiln.sigmoid %2 : tensor<?x64xf32> -> tensor<?x64xf32>
  %4 = arith.extf %in0 : tensor<?x64xbf16> to tensor<?x64xf32>
  %5 = arith.mulf %4, %3 : tensor<?x64xf32>
  %6 = arith.truncf %5 : tensor<?x64xf32> to tensor<?x64xbf16>
  return %6 : tensor<?x64xbf16>
}
