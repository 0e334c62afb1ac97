module {
  func.func @cross_entropies_forward(%arg0: tensor<?x50xf32> {kiln.gradient = true, kiln.name = "in0"}, %arg1: tensor<?xi64> {kiln.gradient = false, kiln.name = "in1"}, %arg2: tensor<?xf32> {kiln.gradient = false, kiln.name = "in2"}) -> (tensor<?xf32> {kiln.name = "out0"}, tensor<?xf32> {kiln.name = "largest"}, tensor<?xf32> {kiln.name = "sum"}) {
    %cst = arith.constant dense<-100> : tensor<i64>
    %cst_0 = arith.constant dense<0.000000e+00> : tensor<f32>
    %cst_1 = arith.constant dense<0x7FC00000> : tensor<f32>
    %cst_2 = arith.constant dense<50> : tensor<i64>
    %max = kiln.reduce  max %arg0 dims [1] : tensor<?x50xf32> -> tensor<?xf32>
    %0 = kiln.broadcast %max dims [0] like %arg0 : tensor<?xf32>, tensor<?x50xf32> -> tensor<?x50xf32>
    %1 = arith.subf %arg0, %0 : tensor<?x50xf32>
    %2 = math.exp %1 : tensor<?x50xf32>
    %sum = kiln.reduce  sum %2 dims [1] : tensor<?x50xf32> -> tensor<?xf32>
    %3 = math.log %sum : tensor<?xf32>
    %picked = kiln.pick %arg0, %arg1 : tensor<?x50xf32>, tensor<?xi64> -> tensor<?xf32>
    %4 = arith.subf %picked, %max : tensor<?xf32>
    %5 = arith.subf %3, %4 : tensor<?xf32>
    %6 = kiln.broadcast %cst_2 dims [] like %arg1 : tensor<i64>, tensor<?xi64> -> tensor<?xi64>
    %7 = arith.cmpi ult, %arg1, %6 : tensor<?xi64>
    %8 = kiln.broadcast %cst_1 dims [] like %5 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %9 = arith.select %7, %5, %8 : tensor<?xi1>, tensor<?xf32>
    %10 = kiln.broadcast %cst_0 dims [] like %9 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %11 = kiln.broadcast %cst dims [] like %arg1 : tensor<i64>, tensor<?xi64> -> tensor<?xi64>
    %12 = arith.cmpi eq, %arg1, %11 : tensor<?xi64>
    %13 = arith.select %12, %10, %9 : tensor<?xi1>, tensor<?xf32>
    %14 = arith.mulf %13, %arg2 : tensor<?xf32>
    return %14, %max, %sum : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
  }
  func.func @cross_entropies_backward(%arg0: tensor<?x50xf32> {kiln.name = "in0"}, %arg1: tensor<?xi64> {kiln.name = "in1"}, %arg2: tensor<?xf32> {kiln.name = "in2"}, %arg3: tensor<?xf32> {kiln.name = "largest"}, %arg4: tensor<?xf32> {kiln.name = "sum"}, %arg5: tensor<?xf32> {kiln.name = "dout0"}) -> (tensor<?x50xf32> {kiln.name = "din0"}) {
    %cst = arith.constant dense<1.000000e+00> : tensor<f32>
    %cst_0 = arith.constant dense<-100> : tensor<i64>
    %cst_1 = arith.constant dense<0.000000e+00> : tensor<f32>
    %cst_2 = arith.constant dense<0x7FC00000> : tensor<f32>
    %cst_3 = arith.constant dense<50> : tensor<i64>
    %0 = kiln.broadcast %arg3 dims [0] like %arg0 : tensor<?xf32>, tensor<?x50xf32> -> tensor<?x50xf32>
    %1 = arith.subf %arg0, %0 : tensor<?x50xf32>
    %2 = math.log %arg4 : tensor<?xf32>
    %3 = kiln.broadcast %cst_3 dims [] like %arg1 : tensor<i64>, tensor<?xi64> -> tensor<?xi64>
    %4 = arith.cmpi ult, %arg1, %3 : tensor<?xi64>
    %5 = kiln.broadcast %cst_0 dims [] like %arg1 : tensor<i64>, tensor<?xi64> -> tensor<?xi64>
    %6 = arith.cmpi eq, %arg1, %5 : tensor<?xi64>
    %7 = arith.mulf %arg5, %arg2 : tensor<?xf32>
    %8 = kiln.broadcast %cst_2 dims [] like %7 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %9 = arith.select %4, %7, %8 : tensor<?xi1>, tensor<?xf32>
    %10 = kiln.broadcast %cst dims [] like %arg0 : tensor<f32>, tensor<?x50xf32> -> tensor<?x50xf32>
    %11 = kiln.broadcast %cst_1 dims [] like %arg0 : tensor<f32>, tensor<?x50xf32> -> tensor<?x50xf32>
    %index = kiln.index dim 1 like %arg0 : tensor<?x50xf32> -> tensor<?x50xi64>
    %12 = kiln.broadcast %arg1 dims [0] like %arg0 : tensor<?xi64>, tensor<?x50xf32> -> tensor<?x50xi64>
    %13 = arith.cmpi eq, %index, %12 : tensor<?x50xi64>
    %14 = arith.select %13, %10, %11 : tensor<?x50xi1>, tensor<?x50xf32>
    %15 = kiln.broadcast %9 dims [0] like %arg0 : tensor<?xf32>, tensor<?x50xf32> -> tensor<?x50xf32>
    %16 = arith.mulf %14, %15 : tensor<?x50xf32>
    %17 = kiln.broadcast %2 dims [0] like %1 : tensor<?xf32>, tensor<?x50xf32> -> tensor<?x50xf32>
    %18 = arith.subf %1, %17 : tensor<?x50xf32>
    %19 = math.exp %18 : tensor<?x50xf32>
    %20 = arith.mulf %19, %15 : tensor<?x50xf32>
    %21 = arith.subf %20, %16 : tensor<?x50xf32>
    %22 = kiln.broadcast %6 dims [0] like %arg0 : tensor<?xi1>, tensor<?x50xf32> -> tensor<?x50xi1>
    %23 = arith.select %22, %11, %21 : tensor<?x50xi1>, tensor<?x50xf32>
    return %23 : tensor<?x50xf32>
  }
}

