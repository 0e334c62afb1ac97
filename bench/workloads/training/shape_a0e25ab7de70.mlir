func.func @column_sums(%in0: tensor<?x256xbf16> {kiln.gradient = false}) -> (tensor<256xf32> {kiln.name = "out0"}) {
  %0 = arith.extf %in0 : tensor<?x256xbf16> to tensor<?x256xf32>
  %1 = kiln.reduce sum %0 dims [0] : tensor<?x256xf32> -> tensor<256xf32>
  return %1 : tensor<256xf32>
}
