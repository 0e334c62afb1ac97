func.func @swiglu(%in0: tensor<?x3072xbf16> {kiln.gradient = false, kiln.layout = #kiln.layout<strides = [6144, 1]>}, %in1: tensor<?x3072xbf16> {kiln.gradient = false, kiln.layout = #kiln.layout<strides = [6144, 1]>}) -> (tensor<?x3072xbf16> {kiln.name = "out0"}) {
  %0 = arith.extf %in0 : tensor<?x3072xbf16> to tensor<?x3072xf32>
  %1 = kiln.silu %0 : tensor<?x3072xf32> -> tensor<?x3072xf32>
  %2 = arith.extf %in1 : tensor<?x3072xbf16> to tensor<?x3072xf32>
  %3 = arith.mulf %1, %2 : tensor<?x3072xf32>
  %4 = arith.truncf %3 : tensor<?x3072xf32> to tensor<?x3072xbf16>
  return %4 : tensor<?x3072xbf16>
}
