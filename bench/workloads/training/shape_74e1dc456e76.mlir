module {
  func.func @add_scaled_normed_forward(%arg0: tensor<?x128xbf16> {kiln.gradient = true, kiln.name = "in0"}, %arg1: tensor<?x128xbf16> {kiln.gradient = true, kiln.name = "in1"}, %arg2: tensor<128xf32> {kiln.gradient = true, kiln.name = "in2"}, %arg3: tensor<?xf32> {kiln.gradient = false, kiln.name = "in3"}, %arg4: tensor<128xf32> {kiln.gradient = true, kiln.name = "in4"}, %arg5: tensor<128xf32> {kiln.gradient = true, kiln.name = "in5"}) -> (tensor<?x128xbf16> {kiln.name = "out0"}, tensor<?x128xbf16> {kiln.name = "out1"}, tensor<?xf32> {kiln.name = "mean"}, tensor<?xf32> {kiln.name = "saved"}) {
    %cst = arith.constant dense<9.99999974E-6> : tensor<f32>
    %cst_0 = arith.constant dense<0.000000e+00> : tensor<f32>
    %cst_1 = arith.constant dense<1.600000e+01> : tensor<f32>
    %0 = arith.extf %arg1 : tensor<?x128xbf16> to tensor<?x128xf32>
    %1 = kiln.broadcast %arg2 dims [1] like %arg0 : tensor<128xf32>, tensor<?x128xbf16> -> tensor<?x128xf32>
    %2 = arith.addf %0, %1 : tensor<?x128xf32>
    %3 = kiln.broadcast %arg3 dims [0] like %arg0 : tensor<?xf32>, tensor<?x128xbf16> -> tensor<?x128xf32>
    %4 = arith.mulf %3, %2 : tensor<?x128xf32>
    %5 = arith.extf %arg0 : tensor<?x128xbf16> to tensor<?x128xf32>
    %6 = arith.addf %5, %4 : tensor<?x128xf32>
    %7 = arith.truncf %6 : tensor<?x128xf32> to tensor<?x128xbf16>
    %8 = arith.extf %7 : tensor<?x128xbf16> to tensor<?x128xf32>
    %mean = kiln.reduce  mean %8 dims [1] : tensor<?x128xf32> -> tensor<?xf32>
    %9 = kiln.broadcast %mean dims [0] like %8 : tensor<?xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
    %10 = arith.subf %8, %9 : tensor<?x128xf32>
    %mean_2 = kiln.reduce  mean %10 dims [1] : tensor<?x128xf32> -> tensor<?xf32>
    %11 = arith.mulf %10, %10 : tensor<?x128xf32>
    %mean_3 = kiln.reduce  mean %11 dims [1] : tensor<?x128xf32> -> tensor<?xf32>
    %12 = kiln.broadcast %cst_1 dims [] like %mean_3 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %13 = arith.mulf %mean_3, %12 : tensor<?xf32>
    %14 = arith.mulf %mean, %mean : tensor<?xf32>
    %15 = arith.cmpf ole, %14, %13 : tensor<?xf32>
    %16 = kiln.broadcast %cst_0 dims [] like %mean_2 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %17 = arith.select %15, %16, %mean_2 : tensor<?xi1>, tensor<?xf32>
    %18 = arith.addf %mean, %17 : tensor<?xf32>
    %19 = arith.mulf %17, %17 : tensor<?xf32>
    %20 = arith.subf %mean_3, %19 : tensor<?xf32>
    %21 = kiln.broadcast %cst_0 dims [] like %20 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %22 = arith.maximumf %20, %21 : tensor<?xf32>
    %23 = kiln.broadcast %cst dims [] like %22 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %24 = arith.addf %22, %23 : tensor<?xf32>
    %25 = math.rsqrt %24 : tensor<?xf32>
    %26 = arith.mulf %17, %25 : tensor<?xf32>
    %27 = arith.negf %26 : tensor<?xf32>
    %28 = kiln.broadcast %27 dims [0] like %8 : tensor<?xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
    %29 = kiln.broadcast %25 dims [0] like %8 : tensor<?xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
    %30 = math.fma %10, %29, %28 : tensor<?x128xf32>
    %31 = kiln.broadcast %arg4 dims [1] like %8 : tensor<128xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
    %32 = arith.mulf %30, %31 : tensor<?x128xf32>
    %33 = kiln.broadcast %arg5 dims [1] like %8 : tensor<128xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
    %34 = arith.addf %32, %33 : tensor<?x128xf32>
    %35 = arith.truncf %34 : tensor<?x128xf32> to tensor<?x128xbf16>
    return %7, %35, %18, %20 : tensor<?x128xbf16>, tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>
  }
  func.func @add_scaled_normed_backward(%arg0: tensor<?x128xbf16> {kiln.name = "in0"}, %arg1: tensor<?xf32> {kiln.name = "in3"}, %arg2: tensor<128xf32> {kiln.name = "in4"}, %arg3: tensor<?x128xbf16> {kiln.name = "out0"}, %arg4: tensor<?xf32> {kiln.name = "mean"}, %arg5: tensor<?xf32> {kiln.name = "saved"}, %arg6: tensor<?x128xbf16> {kiln.name = "dout0"}, %arg7: tensor<?x128xbf16> {kiln.name = "dout1"}) -> (tensor<?x128xbf16> {kiln.name = "din0"}, tensor<?x128xbf16> {kiln.name = "din1"}, tensor<128xf32> {kiln.name = "din2"}, tensor<128xf32> {kiln.name = "din4"}, tensor<128xf32> {kiln.name = "din5"}) {
    %cst = arith.constant dense<9.99999974E-6> : tensor<f32>
    %cst_0 = arith.constant dense<0.000000e+00> : tensor<f32>
    %0 = kiln.broadcast %arg1 dims [0] like %arg0 : tensor<?xf32>, tensor<?x128xbf16> -> tensor<?x128xf32>
    %1 = arith.extf %arg3 : tensor<?x128xbf16> to tensor<?x128xf32>
    %2 = kiln.broadcast %cst_0 dims [] like %arg5 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %3 = arith.maximumf %arg5, %2 : tensor<?xf32>
    %4 = kiln.broadcast %cst dims [] like %3 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %5 = arith.addf %3, %4 : tensor<?xf32>
    %6 = math.rsqrt %5 : tensor<?xf32>
    %7 = kiln.broadcast %6 dims [0] like %1 : tensor<?xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
    %8 = kiln.broadcast %arg2 dims [1] like %1 : tensor<128xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
    %9 = arith.extf %arg6 : tensor<?x128xbf16> to tensor<?x128xf32>
    %10 = arith.extf %arg7 : tensor<?x128xbf16> to tensor<?x128xf32>
    %11 = kiln.broadcast %arg4 dims [0] like %1 : tensor<?xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
    %12 = arith.subf %1, %11 : tensor<?x128xf32>
    %13 = arith.mulf %12, %7 : tensor<?x128xf32>
    %14 = arith.mulf %10, %8 : tensor<?x128xf32>
    %mean = kiln.reduce  mean %14 dims [1] : tensor<?x128xf32> -> tensor<?xf32>
    %15 = kiln.broadcast %mean dims [0] like %1 : tensor<?xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
    %16 = arith.negf %15 : tensor<?x128xf32>
    %17 = math.fma %10, %8, %16 : tensor<?x128xf32>
    %18 = arith.mulf %14, %13 : tensor<?x128xf32>
    %mean_1 = kiln.reduce  mean %18 dims [1] : tensor<?x128xf32> -> tensor<?xf32>
    %19 = arith.mulf %6, %6 : tensor<?xf32>
    %20 = arith.mulf %mean_1, %19 : tensor<?xf32>
    %21 = kiln.broadcast %20 dims [0] like %1 : tensor<?xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
    %22 = arith.mulf %12, %21 : tensor<?x128xf32>
    %23 = arith.negf %22 : tensor<?x128xf32>
    %24 = math.fma %17, %7, %23 : tensor<?x128xf32>
    %25 = arith.mulf %10, %13 : tensor<?x128xf32>
    %sum = kiln.reduce  sum %25 dims [0] : tensor<?x128xf32> -> tensor<128xf32>
    %sum_2 = kiln.reduce  sum %10 dims [0] : tensor<?x128xf32> -> tensor<128xf32>
    %26 = arith.addf %9, %24 : tensor<?x128xf32>
    %27 = arith.mulf %26, %0 : tensor<?x128xf32>
    %sum_3 = kiln.reduce  sum %27 dims [0] : tensor<?x128xf32> -> tensor<128xf32>
    %28 = arith.truncf %26 : tensor<?x128xf32> to tensor<?x128xbf16>
    %29 = arith.truncf %27 : tensor<?x128xf32> to tensor<?x128xbf16>
    return %28, %29, %sum_3, %sum, %sum_2 : tensor<?x128xbf16>, tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32>, tensor<128xf32>
  }
}

