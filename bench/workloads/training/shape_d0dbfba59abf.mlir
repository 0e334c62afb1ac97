func.func @sigmoid_gate(%in0: tensor<?x64xbf16> {kiln.gradient = false}, %in1: tensor<?x?x64xbf16> {kiln.gradient = false}, %in2: tensor<64xf32> {kiln.gradient = false}) -> (tensor<?x?x64xbf16> {kiln.name = "out0"}) {
  %0 = arith.extf %in1 : tensor<?x?x64xbf16> to tensor<?x?x64xf32>
  %1 = kiln.broadcast %in2 dims [2] like %in1 : tensor<64xf32>, tensor<?x?x64xbf16> -> tensor<?x?x64xf32>
  %2 = arith.addf %0, %1 : tensor<?x?x64xf32>
  %3 = kiln.sigmoid %2 : tensor<?x?x64xf32> -> tensor<?x?x64xf32>
  %4 = arith.extf %in0 : tensor<?x64xbf16> to tensor<?x64xf32>
  %5 = kiln.broadcast %4 dims [1, 2] like %in1 : tensor<?x64xf32>, tensor<?x?x64xbf16> -> tensor<?x?x64xf32>
  %6 = arith.mulf %5, %3 : tensor<?x?x64xf32>
  %7 = arith.truncf %6 : tensor<?x?x64xf32> to tensor<?x?x64xbf16>
  return %7 : tensor<?x?x64xbf16>
}
