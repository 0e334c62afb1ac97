module {
  func.func @layer_norm_forward(%arg0: tensor<?x128xf32> {kiln.gradient = false, kiln.name = "in0"}, %arg1: tensor<128xf32> {kiln.gradient = true, kiln.name = "in1"}, %arg2: tensor<128xf32> {kiln.gradient = true, kiln.name = "in2"}) -> (tensor<?x128xbf16> {kiln.name = "out0"}, tensor<?xf32> {kiln.name = "mean"}, tensor<?xf32> {kiln.name = "saved"}) {
    %cst = arith.constant dense<9.99999974E-6> : tensor<f32>
    %cst_0 = arith.constant dense<0.000000e+00> : tensor<f32>
    %cst_1 = arith.constant dense<1.600000e+01> : tensor<f32>
    %mean = kiln.reduce  mean %arg0 dims [1] : tensor<?x128xf32> -> tensor<?xf32>
    %0 = kiln.broadcast %mean dims [0] like %arg0 : tensor<?xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
    %1 = arith.subf %arg0, %0 : tensor<?x128xf32>
    %mean_2 = kiln.reduce  mean %1 dims [1] : tensor<?x128xf32> -> tensor<?xf32>
    %2 = arith.mulf %1, %1 : tensor<?x128xf32>
    %mean_3 = kiln.reduce  mean %2 dims [1] : tensor<?x128xf32> -> tensor<?xf32>
    %3 = kiln.broadcast %cst_1 dims [] like %mean_3 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %4 = arith.mulf %mean_3, %3 : tensor<?xf32>
    %5 = arith.mulf %mean, %mean : tensor<?xf32>
    %6 = arith.cmpf ole, %5, %4 : tensor<?xf32>
    %7 = kiln.broadcast %cst_0 dims [] like %mean_2 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %8 = arith.select %6, %7, %mean_2 : tensor<?xi1>, tensor<?xf32>
    %9 = arith.addf %mean, %8 : tensor<?xf32>
    %10 = arith.mulf %8, %8 : tensor<?xf32>
    %11 = arith.subf %mean_3, %10 : tensor<?xf32>
    %12 = kiln.broadcast %cst_0 dims [] like %11 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %13 = arith.maximumf %11, %12 : tensor<?xf32>
    %14 = kiln.broadcast %cst dims [] like %13 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %15 = arith.addf %13, %14 : tensor<?xf32>
    %16 = math.rsqrt %15 : tensor<?xf32>
    %17 = arith.mulf %8, %16 : tensor<?xf32>
    %18 = arith.negf %17 : tensor<?xf32>
    %19 = kiln.broadcast %18 dims [0] like %arg0 : tensor<?xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
    %20 = kiln.broadcast %16 dims [0] like %arg0 : tensor<?xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
    %21 = math.fma %1, %20, %19 : tensor<?x128xf32>
    %22 = kiln.broadcast %arg1 dims [1] like %arg0 : tensor<128xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
    %23 = arith.mulf %21, %22 : tensor<?x128xf32>
    %24 = kiln.broadcast %arg2 dims [1] like %arg0 : tensor<128xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
    %25 = arith.addf %23, %24 : tensor<?x128xf32>
    %26 = arith.truncf %25 : tensor<?x128xf32> to tensor<?x128xbf16>
    return %26, %9, %11 : tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>
  }
  func.func @layer_norm_backward(%arg0: tensor<?x128xf32> {kiln.name = "in0"}, %arg1: tensor<?xf32> {kiln.name = "mean"}, %arg2: tensor<?xf32> {kiln.name = "saved"}, %arg3: tensor<?x128xbf16> {kiln.name = "dout0"}) -> (tensor<128xf32> {kiln.name = "din1"}, tensor<128xf32> {kiln.name = "din2"}) {
    %cst = arith.constant dense<9.99999974E-6> : tensor<f32>
    %cst_0 = arith.constant dense<0.000000e+00> : tensor<f32>
    %0 = kiln.broadcast %cst_0 dims [] like %arg2 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %1 = arith.maximumf %arg2, %0 : tensor<?xf32>
    %2 = kiln.broadcast %cst dims [] like %1 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %3 = arith.addf %1, %2 : tensor<?xf32>
    %4 = math.rsqrt %3 : tensor<?xf32>
    %5 = kiln.broadcast %4 dims [0] like %arg0 : tensor<?xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
    %6 = arith.extf %arg3 : tensor<?x128xbf16> to tensor<?x128xf32>
    %7 = kiln.broadcast %arg1 dims [0] like %arg0 : tensor<?xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
    %8 = arith.subf %arg0, %7 : tensor<?x128xf32>
    %9 = arith.mulf %8, %5 : tensor<?x128xf32>
    %10 = arith.mulf %6, %9 : tensor<?x128xf32>
    %sum = kiln.reduce  sum %10 dims [0] : tensor<?x128xf32> -> tensor<128xf32>
    %sum_1 = kiln.reduce  sum %6 dims [0] : tensor<?x128xf32> -> tensor<128xf32>
    return %sum, %sum_1 : tensor<128xf32>, tensor<128xf32>
  }
}

