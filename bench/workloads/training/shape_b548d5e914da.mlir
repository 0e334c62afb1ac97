func.func @rope(%in0: tensor<?x16x64xbf16> {kiln.gradient = false, kiln.layout = #kiln.layout<strides = [3072, 64, 1]>}, %in1: tensor<?x16x64xbf16> {kiln.gradient = false, kiln.layout = #kiln.layout<strides = [3072, 64, 1]>}, %in2: tensor<?xi32> {kiln.gradient = false}) -> (tensor<?x16x64xbf16> {kiln.name = "out0", kiln.layout = #kiln.layout<strides = [3072, 64, 1]>}, tensor<?x16x64xbf16> {kiln.name = "out1", kiln.layout = #kiln.layout<strides = [3072, 64, 1]>}) {
  %0 = kiln.rope %in0, %in2 dims [0] interleaved base 1.00000000000000000e+04 : tensor<?x16x64xbf16>, tensor<?xi32> -> tensor<?x16x64xbf16>
  %1 = kiln.rope %in1, %in2 dims [0] interleaved base 1.00000000000000000e+04 : tensor<?x16x64xbf16>, tensor<?xi32> -> tensor<?x16x64xbf16>
  return %0, %1 : tensor<?x16x64xbf16>, tensor<?x16x64xbf16>
}
