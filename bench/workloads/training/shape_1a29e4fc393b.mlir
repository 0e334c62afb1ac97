module {
  func.func @cross_entropy_forward(%arg0: tensor<?x10000xbf16> {kiln.gradient = true, kiln.name = "in0"}, %arg1: tensor<?xi64> {kiln.gradient = false, kiln.name = "in1"}) -> (tensor<?xf32> {kiln.name = "out0"}, tensor<?xf32> {kiln.name = "largest"}, tensor<?xf32> {kiln.name = "sum"}) {
    %cst = arith.constant dense<-100> : tensor<i64>
    %cst_0 = arith.constant dense<0x7FC00000> : tensor<f32>
    %cst_1 = arith.constant dense<10000> : tensor<i64>
    %cst_2 = arith.constant dense<0.000000e+00> : tensor<f32>
    %0 = arith.extf %arg0 : tensor<?x10000xbf16> to tensor<?x10000xf32>
    %max = kiln.reduce  max %0 dims [1] : tensor<?x10000xf32> -> tensor<?xf32>
    %1 = kiln.broadcast %max dims [0] like %0 : tensor<?xf32>, tensor<?x10000xf32> -> tensor<?x10000xf32>
    %2 = arith.subf %0, %1 : tensor<?x10000xf32>
    %3 = math.exp %2 : tensor<?x10000xf32>
    %sum = kiln.reduce  sum %3 dims [1] : tensor<?x10000xf32> -> tensor<?xf32>
    %4 = math.log %sum : tensor<?xf32>
    %index = kiln.index dim 1 like %0 : tensor<?x10000xf32> -> tensor<?x10000xi64>
    %5 = kiln.broadcast %arg1 dims [0] like %0 : tensor<?xi64>, tensor<?x10000xf32> -> tensor<?x10000xi64>
    %6 = arith.cmpi eq, %index, %5 : tensor<?x10000xi64>
    %7 = kiln.broadcast %cst_2 dims [] like %0 : tensor<f32>, tensor<?x10000xf32> -> tensor<?x10000xf32>
    %8 = arith.select %6, %0, %7 : tensor<?x10000xi1>, tensor<?x10000xf32>
    %sum_3 = kiln.reduce  sum %8 dims [1] : tensor<?x10000xf32> -> tensor<?xf32>
    %9 = kiln.broadcast %cst_1 dims [] like %arg1 : tensor<i64>, tensor<?xi64> -> tensor<?xi64>
    %10 = kiln.broadcast %cst_0 dims [] like %sum_3 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %11 = arith.cmpi ult, %arg1, %9 : tensor<?xi64>
    %12 = arith.select %11, %sum_3, %10 : tensor<?xi1>, tensor<?xf32>
    %13 = arith.subf %12, %max : tensor<?xf32>
    %14 = arith.subf %4, %13 : tensor<?xf32>
    %15 = kiln.broadcast %cst_0 dims [] like %14 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %16 = arith.select %11, %14, %15 : tensor<?xi1>, tensor<?xf32>
    %17 = kiln.broadcast %cst_2 dims [] like %16 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %18 = kiln.broadcast %cst dims [] like %arg1 : tensor<i64>, tensor<?xi64> -> tensor<?xi64>
    %19 = arith.cmpi eq, %arg1, %18 : tensor<?xi64>
    %20 = arith.select %19, %17, %16 : tensor<?xi1>, tensor<?xf32>
    return %20, %max, %sum : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
  }
  func.func @cross_entropy_backward(%arg0: tensor<?x10000xbf16> {kiln.name = "in0"}, %arg1: tensor<?xi64> {kiln.name = "in1"}, %arg2: tensor<?xf32> {kiln.name = "largest"}, %arg3: tensor<?xf32> {kiln.name = "sum"}, %arg4: tensor<?xf32> {kiln.name = "dout0"}) -> (tensor<?x10000xbf16> {kiln.name = "din0"}) {
    %cst = arith.constant dense<1.000000e+00> : tensor<f32>
    %cst_0 = arith.constant dense<-100> : tensor<i64>
    %cst_1 = arith.constant dense<0x7FC00000> : tensor<f32>
    %cst_2 = arith.constant dense<10000> : tensor<i64>
    %cst_3 = arith.constant dense<0.000000e+00> : tensor<f32>
    %0 = arith.extf %arg0 : tensor<?x10000xbf16> to tensor<?x10000xf32>
    %1 = kiln.broadcast %arg2 dims [0] like %0 : tensor<?xf32>, tensor<?x10000xf32> -> tensor<?x10000xf32>
    %2 = arith.subf %0, %1 : tensor<?x10000xf32>
    %3 = math.log %arg3 : tensor<?xf32>
    %index = kiln.index dim 1 like %0 : tensor<?x10000xf32> -> tensor<?x10000xi64>
    %4 = kiln.broadcast %arg1 dims [0] like %0 : tensor<?xi64>, tensor<?x10000xf32> -> tensor<?x10000xi64>
    %5 = arith.cmpi eq, %index, %4 : tensor<?x10000xi64>
    %6 = kiln.broadcast %cst_3 dims [] like %0 : tensor<f32>, tensor<?x10000xf32> -> tensor<?x10000xf32>
    %7 = kiln.broadcast %cst_2 dims [] like %arg1 : tensor<i64>, tensor<?xi64> -> tensor<?xi64>
    %8 = arith.cmpi ult, %arg1, %7 : tensor<?xi64>
    %9 = kiln.broadcast %cst_0 dims [] like %arg1 : tensor<i64>, tensor<?xi64> -> tensor<?xi64>
    %10 = arith.cmpi eq, %arg1, %9 : tensor<?xi64>
    %11 = kiln.broadcast %cst_1 dims [] like %arg4 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %12 = arith.select %8, %arg4, %11 : tensor<?xi1>, tensor<?xf32>
    %13 = kiln.broadcast %cst dims [] like %0 : tensor<f32>, tensor<?x10000xf32> -> tensor<?x10000xf32>
    %14 = arith.select %5, %13, %6 : tensor<?x10000xi1>, tensor<?x10000xf32>
    %15 = kiln.broadcast %12 dims [0] like %arg0 : tensor<?xf32>, tensor<?x10000xbf16> -> tensor<?x10000xf32>
    %16 = arith.mulf %14, %15 : tensor<?x10000xf32>
    %17 = kiln.broadcast %3 dims [0] like %2 : tensor<?xf32>, tensor<?x10000xf32> -> tensor<?x10000xf32>
    %18 = arith.subf %2, %17 : tensor<?x10000xf32>
    %19 = math.exp %18 : tensor<?x10000xf32>
    %20 = arith.mulf %19, %15 : tensor<?x10000xf32>
    %21 = arith.subf %20, %16 : tensor<?x10000xf32>
    %22 = kiln.broadcast %10 dims [0] like %0 : tensor<?xi1>, tensor<?x10000xf32> -> tensor<?x10000xi1>
    %23 = arith.select %22, %6, %21 : tensor<?x10000xi1>, tensor<?x10000xf32>
    %24 = arith.truncf %23 : tensor<?x10000xf32> to tensor<?x10000xbf16>
    return %24 : tensor<?x10000xbf16>
  }
}

