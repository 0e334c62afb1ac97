func.func @triangle_side(%in0: tensor<?x?x384xbf16> {kiln.gradient = false}, %in1: tensor<?x?x384xbf16> {kiln.gradient = false}, %in2: tensor<?xf32> {kiln.gradient = false}, %in3: tensor<?xf32> {kiln.gradient = false}) -> (tensor<?x?x384xbf16> {kiln.name = "out0"}) {
  %0 = arith.extf %in1 : tensor<?x?x384xbf16> to tensor<?x?x384xf32>
  %1 = kiln.broadcast %in3 dims [0] like %in0 : tensor<?xf32>, tensor<?x?x384xbf16> -> tensor<?x?x384xf32>
  %2 = arith.addf %0, %1 : tensor<?x?x384xf32>
  %3 = kiln.sigmoid %2 : tensor<?x?x384xf32> -> tensor<?x?x384xf32>
  %4 = arith.extf %in0 : tensor<?x?x384xbf16> to tensor<?x?x384xf32>
  %5 = kiln.broadcast %in2 dims [0] like %in0 : tensor<?xf32>, tensor<?x?x384xbf16> -> tensor<?x?x384xf32>
  %6 = arith.addf %4, %5 : tensor<?x?x384xf32>
  %7 = arith.mulf %3, %6 : tensor<?x?x384xf32>
  %8 = arith.truncf %7 : tensor<?x?x384xf32> to tensor<?x?x384xbf16>
  return %8 : tensor<?x?x384xbf16>
}
