module {
  func.func @layer_norm_forward(%arg0: tensor<?x64xbf16> {kiln.gradient = true, kiln.name = "in0"}, %arg1: tensor<64xf32> {kiln.gradient = true, kiln.name = "in1"}, %arg2: tensor<64xf32> {kiln.gradient = true, kiln.name = "in2"}) -> (tensor<?x64xbf16> {kiln.name = "out0"}, tensor<?xf32> {kiln.name = "mean"}, tensor<?xf32> {kiln.name = "saved"}) {
    %cst = arith.constant dense<9.99999974E-6> : tensor<f32>
    %cst_0 = arith.constant dense<0.000000e+00> : tensor<f32>
    %cst_1 = arith.constant dense<1.600000e+01> : tensor<f32>
    %0 = arith.extf %arg0 : tensor<?x64xbf16> to tensor<?x64xf32>
    %mean = kiln.reduce  mean %0 dims [1] : tensor<?x64xf32> -> tensor<?xf32>
    %1 = kiln.broadcast %mean dims [0] like %0 : tensor<?xf32>, tensor<?x64xf32> -> tensor<?x64xf32>
    %2 = arith.subf %0, %1 : tensor<?x64xf32>
    %mean_2 = kiln.reduce  mean %2 dims [1] : tensor<?x64xf32> -> tensor<?xf32>
    %3 = arith.mulf %2, %2 : tensor<?x64xf32>
    %mean_3 = kiln.reduce  mean %3 dims [1] : tensor<?x64xf32> -> tensor<?xf32>
    %4 = kiln.broadcast %cst_1 dims [] like %mean_3 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %5 = arith.mulf %mean_3, %4 : tensor<?xf32>
    %6 = arith.mulf %mean, %mean : tensor<?xf32>
    %7 = arith.cmpf ole, %6, %5 : tensor<?xf32>
    %8 = kiln.broadcast %cst_0 dims [] like %mean_2 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %9 = arith.select %7, %8, %mean_2 : tensor<?xi1>, tensor<?xf32>
    %10 = arith.addf %mean, %9 : tensor<?xf32>
    %11 = arith.mulf %9, %9 : tensor<?xf32>
    %12 = arith.subf %mean_3, %11 : tensor<?xf32>
    %13 = kiln.broadcast %cst_0 dims [] like %12 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %14 = arith.maximumf %12, %13 : tensor<?xf32>
    %15 = kiln.broadcast %cst dims [] like %14 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %16 = arith.addf %14, %15 : tensor<?xf32>
    %17 = math.rsqrt %16 : tensor<?xf32>
    %18 = arith.mulf %9, %17 : tensor<?xf32>
    %19 = arith.negf %18 : tensor<?xf32>
    %20 = kiln.broadcast %19 dims [0] like %0 : tensor<?xf32>, tensor<?x64xf32> -> tensor<?x64xf32>
    %21 = kiln.broadcast %17 dims [0] like %0 : tensor<?xf32>, tensor<?x64xf32> -> tensor<?x64xf32>
    %22 = math.fma %2, %21, %20 : tensor<?x64xf32>
    %23 = kiln.broadcast %arg1 dims [1] like %0 : tensor<64xf32>, tensor<?x64xf32> -> tensor<?x64xf32>
    %24 = arith.mulf %22, %23 : tensor<?x64xf32>
    %25 = kiln.broadcast %arg2 dims [1] like %0 : tensor<64xf32>, tensor<?x64xf32> -> tensor<?x64xf32>
    %26 = arith.addf %24, %25 : tensor<?x64xf32>
    %27 = arith.truncf %26 : tensor<?x64xf32> to tensor<?x64xbf16>
    return %27, %10, %12 : tensor<?x64xbf16>, tensor<?xf32>, tensor<?xf32>
  }
  func.func @layer_norm_backward(%arg0: tensor<?x64xbf16> {kiln.name = "in0"}, %arg1: tensor<64xf32> {kiln.name = "in1"}, %arg2: tensor<?xf32> {kiln.name = "mean"}, %arg3: tensor<?xf32> {kiln.name = "saved"}, %arg4: tensor<?x64xbf16> {kiln.name = "dout0"}) -> (tensor<?x64xbf16> {kiln.name = "din0"}, tensor<64xf32> {kiln.name = "din1"}, tensor<64xf32> {kiln.name = "din2"}) {
    %cst = arith.constant dense<9.99999974E-6> : tensor<f32>
    %cst_0 = arith.constant dense<0.000000e+00> : tensor<f32>
    %0 = arith.extf %arg0 : tensor<?x64xbf16> to tensor<?x64xf32>
    %1 = kiln.broadcast %cst_0 dims [] like %arg3 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %2 = arith.maximumf %arg3, %1 : tensor<?xf32>
    %3 = kiln.broadcast %cst dims [] like %2 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %4 = arith.addf %2, %3 : tensor<?xf32>
    %5 = math.rsqrt %4 : tensor<?xf32>
    %6 = kiln.broadcast %5 dims [0] like %0 : tensor<?xf32>, tensor<?x64xf32> -> tensor<?x64xf32>
    %7 = kiln.broadcast %arg1 dims [1] like %0 : tensor<64xf32>, tensor<?x64xf32> -> tensor<?x64xf32>
    %8 = arith.extf %arg4 : tensor<?x64xbf16> to tensor<?x64xf32>
    %9 = kiln.broadcast %arg2 dims [0] like %0 : tensor<?xf32>, tensor<?x64xf32> -> tensor<?x64xf32>
    %10 = arith.subf %0, %9 : tensor<?x64xf32>
    %11 = arith.mulf %10, %6 : tensor<?x64xf32>
    %12 = arith.mulf %8, %7 : tensor<?x64xf32>
    %mean = kiln.reduce  mean %12 dims [1] : tensor<?x64xf32> -> tensor<?xf32>
    %13 = kiln.broadcast %mean dims [0] like %arg0 : tensor<?xf32>, tensor<?x64xbf16> -> tensor<?x64xf32>
    %14 = arith.negf %13 : tensor<?x64xf32>
    %15 = math.fma %8, %7, %14 : tensor<?x64xf32>
    %16 = arith.mulf %12, %11 : tensor<?x64xf32>
    %mean_1 = kiln.reduce  mean %16 dims [1] : tensor<?x64xf32> -> tensor<?xf32>
    %17 = arith.mulf %5, %5 : tensor<?xf32>
    %18 = arith.mulf %mean_1, %17 : tensor<?xf32>
    %19 = kiln.broadcast %18 dims [0] like %arg0 : tensor<?xf32>, tensor<?x64xbf16> -> tensor<?x64xf32>
    %20 = arith.mulf %10, %19 : tensor<?x64xf32>
    %21 = arith.negf %20 : tensor<?x64xf32>
    %22 = math.fma %15, %6, %21 : tensor<?x64xf32>
    %23 = arith.mulf %8, %11 : tensor<?x64xf32>
    %sum = kiln.reduce  sum %23 dims [0] : tensor<?x64xf32> -> tensor<64xf32>
    %sum_2 = kiln.reduce  sum %8 dims [0] : tensor<?x64xf32> -> tensor<64xf32>
    %24 = arith.truncf %22 : tensor<?x64xf32> to tensor<?x64xbf16>
    return %24, %sum, %sum_2 : tensor<?x64xbf16>, tensor<64xf32>, tensor<64xf32>
  }
}

