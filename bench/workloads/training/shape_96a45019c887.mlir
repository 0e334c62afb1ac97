func.func @column_sums(%in0: tensor<?x32xbf16> {kiln.gradient = false}) -> (tensor<32xf32> {kiln.name = "out0"}) {
  %0 = arith.extf %in0 : tensor<?x32xbf16> to tensor<?x32xf32>
  %1 = kiln.reduce sum %0 dims [0] : tensor<?x32xf32> -> tensor<32xf32>
  return %1 : tensor<32xf32>
}
