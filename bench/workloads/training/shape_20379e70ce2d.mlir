module {
  func.func @sigmoid_gate(%arg0: tensor<?x64xbf16> {kiln.gradient = true, kiln.name = "in0"}, %arg1: tensor<?x64xbf16> {kiln.gradient = true, kiln.layout = #kiln.layout<strides = [256, 1]>, kiln.name = "in1"}, %arg2: tensor<64xf32> {kiln.gradient = true, kiln.name = "in2"}) -> (tensor<?x64xbf16> {kiln.name = "out0"}) {
    %0 = arith.extf %arg1 : tensor<?x64xbf16> to tensor<?x64xf32>
    %1 = kiln.broadcast %arg2 dims [1] like %arg0 : tensor<64xf32>, tensor<?x64xbf16> -> tensor<?x64xf32>
    %2 = arith.addf %0, %1 : tensor<?x64xf32>
    %y = kiln.sigmoid %2 : tensor<?x64xf32> -> tensor<?x64xf32>
    %3 = arith.extf %arg0 : tensor<?x64xbf16> to tensor<?x64xf32>
    %4 = arith.mulf %3, %y : tensor<?x64xf32>
    %5 = arith.truncf %4 : tensor<?x64xf32> to tensor<?x64xbf16>
    return %5 : tensor<?x64xbf16>
  }
  func.func @sigmoid_gate_backward(%arg0: tensor<?x64xbf16> {kiln.name = "in0"}, %arg1: tensor<?x64xbf16> {kiln.layout = #kiln.layout<strides = [256, 1]>, kiln.name = "in1"}, %arg2: tensor<64xf32> {kiln.name = "in2"}, %arg3: tensor<?x64xbf16> {kiln.name = "dout0"}) -> (tensor<?x64xbf16> {kiln.name = "din0"}, tensor<?x64xbf16> {kiln.name = "din1"}, tensor<64xf32> {kiln.name = "din2"}) {
    %cst = arith.constant dense<0.000000e+00> : tensor<f32>
    %cst_0 = arith.constant dense<1.000000e+00> : tensor<f32>
    %0 = arith.extf %arg1 : tensor<?x64xbf16> to tensor<?x64xf32>
    %1 = kiln.broadcast %arg2 dims [1] like %arg0 : tensor<64xf32>, tensor<?x64xbf16> -> tensor<?x64xf32>
    %2 = arith.addf %0, %1 : tensor<?x64xf32>
    %3 = arith.negf %2 : tensor<?x64xf32>
    %4 = math.exp %3 : tensor<?x64xf32>
    %5 = kiln.broadcast %cst_0 dims [] like %4 : tensor<f32>, tensor<?x64xf32> -> tensor<?x64xf32>
    %6 = arith.addf %4, %5 : tensor<?x64xf32>
    %7 = kiln.broadcast %cst_0 dims [] like %2 : tensor<f32>, tensor<?x64xf32> -> tensor<?x64xf32>
    %8 = arith.divf %7, %6 : tensor<?x64xf32>
    %9 = arith.extf %arg0 : tensor<?x64xbf16> to tensor<?x64xf32>
    %10 = arith.extf %arg3 : tensor<?x64xbf16> to tensor<?x64xf32>
    %11 = arith.mulf %10, %8 : tensor<?x64xf32>
    %12 = arith.mulf %10, %9 : tensor<?x64xf32>
    %13 = kiln.broadcast %cst dims [] like %2 : tensor<f32>, tensor<?x64xf32> -> tensor<?x64xf32>
    %14 = arith.cmpf ogt, %2, %13 : tensor<?x64xf32>
    %15 = arith.mulf %4, %8 : tensor<?x64xf32>
    %16 = arith.subf %7, %8 : tensor<?x64xf32>
    %17 = arith.select %14, %15, %16 : tensor<?x64xi1>, tensor<?x64xf32>
    %18 = arith.mulf %8, %17 : tensor<?x64xf32>
    %19 = arith.mulf %12, %18 : tensor<?x64xf32>
    %sum = kiln.reduce  sum %19 dims [0] : tensor<?x64xf32> -> tensor<64xf32>
    %20 = arith.truncf %11 : tensor<?x64xf32> to tensor<?x64xbf16>
    %21 = arith.truncf %19 : tensor<?x64xf32> to tensor<?x64xbf16>
    return %20, %21, %sum : tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<64xf32>
  }
}

