module {
  func.func @swiglu(%arg0: tensor<?x1024xbf16> {kiln.gradient = true, kiln.name = "in0"}, %arg1: tensor<?x1024xbf16> {kiln.gradient = true, kiln.name = "in1"}) -> (tensor<?x1024xbf16> {kiln.name = "out0"}) {
    %0 = arith.extf %arg0 : tensor<?x1024xbf16> to tensor<?x1024xf32>
    %y = kiln.silu %0 : tensor<?x1024xf32> -> tensor<?x1024xf32>
    %1 = arith.extf %arg1 : tensor<?x1024xbf16> to tensor<?x1024xf32>
    %2 = arith.mulf %y, %1 : tensor<?x1024xf32>
    %3 = arith.truncf %2 : tensor<?x1024xf32> to tensor<?x1024xbf16>
    return %3 : tensor<?x1024xbf16>
  }
  func.func @swiglu_backward(%arg0: tensor<?x1024xbf16> {kiln.name = "in0"}, %arg1: tensor<?x1024xbf16> {kiln.name = "in1"}, %arg2: tensor<?x1024xbf16> {kiln.name = "dout0"}) -> (tensor<?x1024xbf16> {kiln.name = "din0"}, tensor<?x1024xbf16> {kiln.name = "din1"}) {
    %cst = arith.constant dense<0.000000e+00> : tensor<f32>
    %cst_0 = arith.constant dense<1.000000e+00> : tensor<f32>
    %0 = arith.extf %arg0 : tensor<?x1024xbf16> to tensor<?x1024xf32>
    %1 = arith.negf %0 : tensor<?x1024xf32>
    %2 = math.exp %1 : tensor<?x1024xf32>
    %3 = kiln.broadcast %cst_0 dims [] like %2 : tensor<f32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
    %4 = arith.addf %2, %3 : tensor<?x1024xf32>
    %5 = arith.divf %0, %4 : tensor<?x1024xf32>
    %6 = arith.extf %arg1 : tensor<?x1024xbf16> to tensor<?x1024xf32>
    %7 = arith.extf %arg2 : tensor<?x1024xbf16> to tensor<?x1024xf32>
    %8 = arith.mulf %7, %6 : tensor<?x1024xf32>
    %9 = arith.mulf %7, %5 : tensor<?x1024xf32>
    %10 = kiln.broadcast %cst_0 dims [] like %0 : tensor<f32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
    %11 = arith.divf %10, %4 : tensor<?x1024xf32>
    %12 = kiln.broadcast %cst dims [] like %0 : tensor<f32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
    %13 = arith.cmpf ogt, %0, %12 : tensor<?x1024xf32>
    %14 = arith.mulf %2, %11 : tensor<?x1024xf32>
    %15 = arith.subf %10, %11 : tensor<?x1024xf32>
    %16 = arith.select %13, %14, %15 : tensor<?x1024xi1>, tensor<?x1024xf32>
    %17 = arith.mulf %0, %16 : tensor<?x1024xf32>
    %18 = kiln.broadcast %cst_0 dims [] like %17 : tensor<f32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
    %19 = arith.addf %17, %18 : tensor<?x1024xf32>
    %20 = arith.mulf %11, %19 : tensor<?x1024xf32>
    %21 = arith.mulf %8, %20 : tensor<?x1024xf32>
    %22 = arith.truncf %21 : tensor<?x1024xf32> to tensor<?x1024xbf16>
    %23 = arith.truncf %9 : tensor<?x1024xf32> to tensor<?x1024xbf16>
    return %22, %23 : tensor<?x1024xbf16>, tensor<?x1024xbf16>
  }
}

