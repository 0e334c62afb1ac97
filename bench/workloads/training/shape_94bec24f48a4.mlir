func.func @swiglu(%in0: tensor<?x4096xbf16> {kiln.gradient = false, kiln.layout = #kiln.layout<strides = [8192, 1]>}, %in1: tensor<?x4096xbf16> {kiln.gradient = false, kiln.layout = #kiln.layout<strides = [8192, 1]>}) -> (tensor<?x4096xbf16> {kiln.name = "out0"}) {
  %0 = arith.extf %in0 : tensor<?x4096xbf16> to tensor<?x4096xf32>
  %1 = kiln.silu %0 : tensor<?x4096xf32> -> tensor<?x4096xf32>
  %2 = arith.extf %in1 : tensor<?x4096xbf16> to tensor<?x4096xf32>
  %3 = arith.mulf %1, %2 : tensor<?x4096xf32>
  %4 = arith.truncf %3 : tensor<?x4096xf32> to tensor<?x4096xbf16>
  return %4 : tensor<?x4096xbf16>
}
