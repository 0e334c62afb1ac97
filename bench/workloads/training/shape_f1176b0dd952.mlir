module {
  func.func @lengths_off(%arg0: tensor<?x2688xf32> {kiln.gradient = true, kiln.name = "in0"}, %arg1: tensor<?x2688xf32> {kiln.gradient = true, kiln.name = "in1"}, %arg2: tensor<2688xf32> {kiln.gradient = false, kiln.name = "in2"}) -> (tensor<?xf32> {kiln.name = "out0"}) {
    %cst = arith.constant dense<1.000000e+00> : tensor<f32>
    %cst_0 = arith.constant dense<9.99999997E-7> : tensor<f32>
    %0 = arith.mulf %arg0, %arg0 : tensor<?x2688xf32>
    %1 = arith.mulf %arg1, %arg1 : tensor<?x2688xf32>
    %2 = arith.addf %0, %1 : tensor<?x2688xf32>
    %3 = kiln.broadcast %cst_0 dims [] like %arg0 : tensor<f32>, tensor<?x2688xf32> -> tensor<?x2688xf32>
    %4 = arith.addf %2, %3 : tensor<?x2688xf32>
    %5 = math.sqrt %4 : tensor<?x2688xf32>
    %6 = kiln.broadcast %cst dims [] like %arg0 : tensor<f32>, tensor<?x2688xf32> -> tensor<?x2688xf32>
    %7 = arith.subf %5, %6 : tensor<?x2688xf32>
    %8 = math.absf %7 : tensor<?x2688xf32>
    %9 = kiln.broadcast %arg2 dims [1] like %arg0 : tensor<2688xf32>, tensor<?x2688xf32> -> tensor<?x2688xf32>
    %10 = arith.mulf %8, %9 : tensor<?x2688xf32>
    %sum = kiln.reduce  sum %10 dims [1] : tensor<?x2688xf32> -> tensor<?xf32>
    return %sum : tensor<?xf32>
  }
  func.func @lengths_off_backward(%arg0: tensor<?x2688xf32> {kiln.name = "in0"}, %arg1: tensor<?x2688xf32> {kiln.name = "in1"}, %arg2: tensor<2688xf32> {kiln.name = "in2"}, %arg3: tensor<?xf32> {kiln.name = "dout0"}) -> (tensor<?x2688xf32> {kiln.name = "din0"}, tensor<?x2688xf32> {kiln.name = "din1"}) {
    %cst = arith.constant dense<5.000000e-01> : tensor<f32>
    %cst_0 = arith.constant dense<0.000000e+00> : tensor<f32>
    %cst_1 = arith.constant dense<1.000000e+00> : tensor<f32>
    %cst_2 = arith.constant dense<9.99999997E-7> : tensor<f32>
    %0 = arith.mulf %arg0, %arg0 : tensor<?x2688xf32>
    %1 = arith.mulf %arg1, %arg1 : tensor<?x2688xf32>
    %2 = arith.addf %0, %1 : tensor<?x2688xf32>
    %3 = kiln.broadcast %cst_2 dims [] like %arg0 : tensor<f32>, tensor<?x2688xf32> -> tensor<?x2688xf32>
    %4 = arith.addf %2, %3 : tensor<?x2688xf32>
    %5 = math.sqrt %4 : tensor<?x2688xf32>
    %6 = kiln.broadcast %cst_1 dims [] like %arg0 : tensor<f32>, tensor<?x2688xf32> -> tensor<?x2688xf32>
    %7 = arith.subf %5, %6 : tensor<?x2688xf32>
    %8 = kiln.broadcast %arg2 dims [1] like %arg0 : tensor<2688xf32>, tensor<?x2688xf32> -> tensor<?x2688xf32>
    %9 = kiln.broadcast %arg3 dims [0] like %arg1 : tensor<?xf32>, tensor<?x2688xf32> -> tensor<?x2688xf32>
    %10 = arith.mulf %9, %8 : tensor<?x2688xf32>
    %11 = kiln.broadcast %cst_0 dims [] like %7 : tensor<f32>, tensor<?x2688xf32> -> tensor<?x2688xf32>
    %12 = arith.cmpf ogt, %7, %11 : tensor<?x2688xf32>
    %13 = arith.cmpf ogt, %11, %7 : tensor<?x2688xf32>
    %14 = arith.negf %10 : tensor<?x2688xf32>
    %15 = arith.select %13, %14, %11 : tensor<?x2688xi1>, tensor<?x2688xf32>
    %16 = arith.select %12, %10, %15 : tensor<?x2688xi1>, tensor<?x2688xf32>
    %17 = kiln.broadcast %cst dims [] like %16 : tensor<f32>, tensor<?x2688xf32> -> tensor<?x2688xf32>
    %18 = arith.mulf %16, %17 : tensor<?x2688xf32>
    %19 = arith.divf %18, %5 : tensor<?x2688xf32>
    %20 = arith.mulf %19, %arg1 : tensor<?x2688xf32>
    %21 = arith.addf %20, %20 : tensor<?x2688xf32>
    %22 = arith.mulf %19, %arg0 : tensor<?x2688xf32>
    %23 = arith.addf %22, %22 : tensor<?x2688xf32>
    return %23, %21 : tensor<?x2688xf32>, tensor<?x2688xf32>
  }
}

