func.func @swiglu(%in0: tensor<?x5120xbf16> {kiln.gradient = false, kiln.layout = #kiln.layout<strides = [10240, 1]>}, %in1: tensor<?x5120xbf16> {kiln.gradient = false, kiln.layout = #kiln.layout<strides = [10240, 1]>}) -> (tensor<?x5120xbf16> {kiln.name = "out0"}) {
  %0 = arith.extf %in0 : tensor<?x5120xbf16> to tensor<?x5120xf32>
  %1 = kiln.silu %0 : tensor<?x5120xf32> -> tensor<?x5120xf32>
  %2 = arith.extf %in1 : tensor<?x5120xbf16> to tensor<?x5120xf32>
  %3 = arith.mulf %1, %2 : tensor<?x5120xf32>
  %4 = arith.truncf %3 : tensor<?x5120xf32> to tensor<?x5120xbf16>
  return %4 : tensor<?x5120xbf16>
}
