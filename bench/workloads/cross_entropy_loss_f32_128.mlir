// A routed loss with its gradient, for the sum of the losses times dloss.
func.func @cross_entropy_with_gradient(%arg0: tensor<?x128xf32> {kiln.name = "x"}, %arg1: tensor<?xi64> {kiln.name = "target"}, %arg2: tensor<f32> {kiln.name = "dloss"}) -> (tensor<f32> {kiln.name = "loss"}, tensor<?x128xf32> {kiln.name = "dx"}) {
  %max = kiln.reduce  max %arg0 dims [1] : tensor<?x128xf32> -> tensor<?xf32>
  %0 = kiln.broadcast %max dims [0] like %arg0 : tensor<?xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
  %1 = arith.subf %arg0, %0 : tensor<?x128xf32>
  %2 = math.exp %1 : tensor<?x128xf32>
  %sum = kiln.reduce  sum %2 dims [1] : tensor<?x128xf32> -> tensor<?xf32>
  %3 = math.log %sum : tensor<?xf32>
  %picked = kiln.pick %arg0, %arg1 : tensor<?x128xf32>, tensor<?xi64> -> tensor<?xf32>
  %4 = arith.subf %picked, %max : tensor<?xf32>
  %5 = arith.subf %3, %4 : tensor<?xf32>
  %cst = arith.constant dense<128> : tensor<i64>
  %6 = kiln.broadcast %cst dims [] like %arg1 : tensor<i64>, tensor<?xi64> -> tensor<?xi64>
  %7 = arith.cmpi ult, %arg1, %6 : tensor<?xi64>
  %cst_0 = arith.constant dense<0x7FC00000> : tensor<f32>
  %8 = kiln.broadcast %cst_0 dims [] like %5 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
  %9 = arith.select %7, %5, %8 : tensor<?xi1>, tensor<?xf32>
  %cst_1 = arith.constant dense<0.000000e+00> : tensor<f32>
  %10 = kiln.broadcast %cst_1 dims [] like %9 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
  %cst_2 = arith.constant dense<-100> : tensor<i64>
  %11 = kiln.broadcast %cst_2 dims [] like %arg1 : tensor<i64>, tensor<?xi64> -> tensor<?xi64>
  %12 = arith.cmpi eq, %arg1, %11 : tensor<?xi64>
  %13 = arith.select %12, %10, %9 : tensor<?xi1>, tensor<?xf32>
  %sum_3 = kiln.reduce  sum %13 dims [0] : tensor<?xf32> -> tensor<f32>
  %14 = kiln.broadcast %arg2 dims [] like %13 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
  %15 = kiln.broadcast %cst_0 dims [] like %14 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
  %16 = arith.select %7, %14, %15 : tensor<?xi1>, tensor<?xf32>
  %cst_4 = arith.constant dense<1.000000e+00> : tensor<f32>
  %17 = kiln.broadcast %cst_4 dims [] like %arg0 : tensor<f32>, tensor<?x128xf32> -> tensor<?x128xf32>
  %18 = kiln.broadcast %cst_1 dims [] like %arg0 : tensor<f32>, tensor<?x128xf32> -> tensor<?x128xf32>
  %index = kiln.index dim 1 like %arg0 : tensor<?x128xf32> -> tensor<?x128xi64>
  %19 = kiln.broadcast %arg1 dims [0] like %arg0 : tensor<?xi64>, tensor<?x128xf32> -> tensor<?x128xi64>
  %20 = arith.cmpi eq, %index, %19 : tensor<?x128xi64>
  %21 = arith.select %20, %17, %18 : tensor<?x128xi1>, tensor<?x128xf32>
  %22 = kiln.broadcast %16 dims [0] like %arg0 : tensor<?xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
  %23 = arith.mulf %21, %22 : tensor<?x128xf32>
  %24 = kiln.broadcast %16 dims [0] like %1 : tensor<?xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
  %25 = kiln.broadcast %3 dims [0] like %1 : tensor<?xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
  %26 = arith.subf %1, %25 : tensor<?x128xf32>
  %27 = math.exp %26 : tensor<?x128xf32>
  %28 = arith.mulf %27, %24 : tensor<?x128xf32>
  %29 = arith.subf %28, %23 : tensor<?x128xf32>
  %30 = kiln.broadcast %12 dims [0] like %arg0 : tensor<?xi1>, tensor<?x128xf32> -> tensor<?x128xi1>
  %31 = arith.select %30, %18, %29 : tensor<?x128xi1>, tensor<?x128xf32>
  return %sum_3, %31 : tensor<f32>, tensor<?x128xf32>
}
