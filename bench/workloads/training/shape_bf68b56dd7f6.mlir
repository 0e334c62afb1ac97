func.func @column_sums(%in0: tensor<?x64xbf16> {kiln.gradient = false}) -> (tensor<64xf32> {kiln.name = "out0"}) {
  %0 = arith.extf %in0 : tensor<?x64xbf16> to tensor<?x64xf32>
  %1 = kiln.reduce sum %0 dims [0] : tensor<?x64xf32> -> tensor<64xf32>
  return %1 : tensor<64xf32>
}
