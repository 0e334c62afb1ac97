func.func @swiglu_backward(%in0: tensor<?x5120xbf16> {kiln.gradient = false}, %in1: tensor<?x5120xbf16> {kiln.gradient = false, kiln.layout = #kiln.layout<strides = [10240, 1]>}, %in2: tensor<?x5120xbf16> {kiln.gradient = false, kiln.layout = #kiln.layout<strides = [10240, 1]>}) -> (tensor<?x5120xbf16> {kiln.name = "out0", kiln.layout = #kiln.layout<strides = [10240, 1]>}, tensor<?x5120xbf16> {kiln.name = "out1", kiln.layout = #kiln.layout<strides = [10240, 1]>}) {
  %0 = arith.extf %in0 : tensor<?x5120xbf16> to tensor<?x5120xf32>
  %1 = arith.extf %in2 : tensor<?x5120xbf16> to tensor<?x5120xf32>
  %2 = arith.mulf %0, %1 : tensor<?x5120xf32>
  %3 = arith.extf %in1 : tensor<?x5120xbf16> to tensor<?x5120xf32>
  %4 = kiln.sigmoid %3 : tensor<?x5120xf32> -> tensor<?x5120xf32>
  %5 = arith.extf %in1 : tensor<?x5120xbf16> to tensor<?x5120xf32>
  %6 = arith.mulf %5, %4 : tensor<?x5120xf32>
  %7 = arith.constant dense<1.000000000e+00> : tensor<f32>
  %8 = kiln.broadcast %7 dims [] like %in0 : tensor<f32>, tensor<?x5120xbf16> -> tensor<?x5120xf32>
  %9 = arith.subf %8, %4 : tensor<?x5120xf32>
  %10 = arith.mulf %6, %9 : tensor<?x5120xf32>
  %11 = arith.addf %4, %10 : tensor<?x5120xf32>
  %12 = arith.mulf %2, %11 : tensor<?x5120xf32>
  %13 = arith.extf %in0 : tensor<?x5120xbf16> to tensor<?x5120xf32>
  %14 = arith.mulf %13, %6 : tensor<?x5120xf32>
  %15 = arith.truncf %12 : tensor<?x5120xf32> to tensor<?x5120xbf16>
  %16 = arith.truncf %14 : tensor<?x5120xf32> to tensor<?x5120xbf16>
  return %15, %16 : tensor<?x5120xbf16>, tensor<?x5120xbf16>
}
