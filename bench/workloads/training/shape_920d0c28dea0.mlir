module {
  func.func @sigmoid_gate(%arg0: tensor<?x64xbf16> {kiln.gradient = true, kiln.name = "in0"}, %arg1: tensor<?x?x64xbf16> {kiln.gradient = true, kiln.name = "in1"}, %arg2: tensor<64xf32> {kiln.gradient = true, kiln.name = "in2"}) -> (tensor<?x?x64xbf16> {kiln.name = "out0"}) {
    %0 = arith.extf %arg1 : tensor<?x?x64xbf16> to tensor<?x?x64xf32>
    %1 = kiln.broadcast %arg2 dims [2] like %arg1 : tensor<64xf32>, tensor<?x?x64xbf16> -> tensor<?x?x64xf32>
    %2 = arith.addf %0, %1 : tensor<?x?x64xf32>
    %y = kiln.sigmoid %2 : tensor<?x?x64xf32> -> tensor<?x?x64xf32>
    %3 = arith.extf %arg0 : tensor<?x64xbf16> to tensor<?x64xf32>
    %4 = kiln.broadcast %3 dims [1, 2] like %arg1 : tensor<?x64xf32>, tensor<?x?x64xbf16> -> tensor<?x?x64xf32>
    %5 = arith.mulf %4, %y : tensor<?x?x64xf32>
    %6 = arith.truncf %5 : tensor<?x?x64xf32> to tensor<?x?x64xbf16>
    return %6 : tensor<?x?x64xbf16>
  }
  func.func @sigmoid_gate_backward(%arg0: tensor<?x64xbf16> {kiln.name = "in0"}, %arg1: tensor<?x?x64xbf16> {kiln.name = "in1"}, %arg2: tensor<64xf32> {kiln.name = "in2"}, %arg3: tensor<?x?x64xbf16> {kiln.name = "dout0"}) -> (tensor<?x64xbf16> {kiln.name = "din0"}, tensor<?x?x64xbf16> {kiln.name = "din1"}, tensor<64xf32> {kiln.name = "din2"}) {
    %cst = arith.constant dense<0.000000e+00> : tensor<f32>
    %cst_0 = arith.constant dense<1.000000e+00> : tensor<f32>
    %0 = arith.extf %arg1 : tensor<?x?x64xbf16> to tensor<?x?x64xf32>
    %1 = kiln.broadcast %arg2 dims [2] like %arg1 : tensor<64xf32>, tensor<?x?x64xbf16> -> tensor<?x?x64xf32>
    %2 = arith.addf %0, %1 : tensor<?x?x64xf32>
    %3 = arith.negf %2 : tensor<?x?x64xf32>
    %4 = math.exp %3 : tensor<?x?x64xf32>
    %5 = kiln.broadcast %cst_0 dims [] like %4 : tensor<f32>, tensor<?x?x64xf32> -> tensor<?x?x64xf32>
    %6 = arith.addf %4, %5 : tensor<?x?x64xf32>
    %7 = kiln.broadcast %cst_0 dims [] like %2 : tensor<f32>, tensor<?x?x64xf32> -> tensor<?x?x64xf32>
    %8 = arith.divf %7, %6 : tensor<?x?x64xf32>
    %9 = arith.extf %arg0 : tensor<?x64xbf16> to tensor<?x64xf32>
    %10 = kiln.broadcast %9 dims [1, 2] like %arg1 : tensor<?x64xf32>, tensor<?x?x64xbf16> -> tensor<?x?x64xf32>
    %11 = arith.extf %arg3 : tensor<?x?x64xbf16> to tensor<?x?x64xf32>
    %12 = arith.mulf %11, %8 : tensor<?x?x64xf32>
    %13 = arith.mulf %11, %10 : tensor<?x?x64xf32>
    %sum = kiln.reduce  sum %12 dims [0] : tensor<?x?x64xf32> -> tensor<?x64xf32>
    %14 = kiln.broadcast %cst dims [] like %2 : tensor<f32>, tensor<?x?x64xf32> -> tensor<?x?x64xf32>
    %15 = arith.cmpf ogt, %2, %14 : tensor<?x?x64xf32>
    %16 = arith.mulf %4, %8 : tensor<?x?x64xf32>
    %17 = arith.subf %7, %8 : tensor<?x?x64xf32>
    %18 = arith.select %15, %16, %17 : tensor<?x?x64xi1>, tensor<?x?x64xf32>
    %19 = arith.mulf %8, %18 : tensor<?x?x64xf32>
    %20 = arith.mulf %13, %19 : tensor<?x?x64xf32>
    %sum_1 = kiln.reduce  sum %20 dims [0, 1] : tensor<?x?x64xf32> -> tensor<64xf32>
    %21 = arith.truncf %sum : tensor<?x64xf32> to tensor<?x64xbf16>
    %22 = arith.truncf %20 : tensor<?x?x64xf32> to tensor<?x?x64xbf16>
    return %21, %22, %sum_1 : tensor<?x64xbf16>, tensor<?x?x64xbf16>, tensor<64xf32>
  }
}

