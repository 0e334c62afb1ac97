module {
  func.func @add_scaled_normed_forward(%arg0: tensor<?x?x128xbf16> {kiln.gradient = true, kiln.name = "in0"}, %arg1: tensor<?x?x128xbf16> {kiln.gradient = true, kiln.name = "in1"}, %arg2: tensor<128xf32> {kiln.gradient = true, kiln.name = "in2"}, %arg3: tensor<?x128xbf16> {kiln.gradient = false, kiln.name = "in3"}, %arg4: tensor<128xf32> {kiln.gradient = true, kiln.name = "in4"}, %arg5: tensor<128xf32> {kiln.gradient = true, kiln.name = "in5"}) -> (tensor<?x?x128xbf16> {kiln.name = "out0"}, tensor<?x?x128xbf16> {kiln.name = "out1"}, tensor<?x?xf32> {kiln.name = "mean"}, tensor<?x?xf32> {kiln.name = "saved"}) {
    %cst = arith.constant dense<9.99999974E-6> : tensor<f32>
    %cst_0 = arith.constant dense<0.000000e+00> : tensor<f32>
    %cst_1 = arith.constant dense<1.600000e+01> : tensor<f32>
    %0 = arith.extf %arg1 : tensor<?x?x128xbf16> to tensor<?x?x128xf32>
    %1 = kiln.broadcast %arg2 dims [2] like %arg0 : tensor<128xf32>, tensor<?x?x128xbf16> -> tensor<?x?x128xf32>
    %2 = arith.addf %0, %1 : tensor<?x?x128xf32>
    %3 = arith.extf %arg3 : tensor<?x128xbf16> to tensor<?x128xf32>
    %4 = kiln.broadcast %3 dims [0, 2] like %arg0 : tensor<?x128xf32>, tensor<?x?x128xbf16> -> tensor<?x?x128xf32>
    %5 = arith.mulf %4, %2 : tensor<?x?x128xf32>
    %6 = arith.extf %arg0 : tensor<?x?x128xbf16> to tensor<?x?x128xf32>
    %7 = arith.addf %6, %5 : tensor<?x?x128xf32>
    %8 = arith.truncf %7 : tensor<?x?x128xf32> to tensor<?x?x128xbf16>
    %9 = arith.extf %8 : tensor<?x?x128xbf16> to tensor<?x?x128xf32>
    %mean = kiln.reduce  mean %9 dims [2] : tensor<?x?x128xf32> -> tensor<?x?xf32>
    %10 = kiln.broadcast %mean dims [0, 1] like %9 : tensor<?x?xf32>, tensor<?x?x128xf32> -> tensor<?x?x128xf32>
    %11 = arith.subf %9, %10 : tensor<?x?x128xf32>
    %mean_2 = kiln.reduce  mean %11 dims [2] : tensor<?x?x128xf32> -> tensor<?x?xf32>
    %12 = arith.mulf %11, %11 : tensor<?x?x128xf32>
    %mean_3 = kiln.reduce  mean %12 dims [2] : tensor<?x?x128xf32> -> tensor<?x?xf32>
    %13 = kiln.broadcast %cst_1 dims [] like %mean_3 : tensor<f32>, tensor<?x?xf32> -> tensor<?x?xf32>
    %14 = arith.mulf %mean_3, %13 : tensor<?x?xf32>
    %15 = arith.mulf %mean, %mean : tensor<?x?xf32>
    %16 = arith.cmpf ole, %15, %14 : tensor<?x?xf32>
    %17 = kiln.broadcast %cst_0 dims [] like %mean_2 : tensor<f32>, tensor<?x?xf32> -> tensor<?x?xf32>
    %18 = arith.select %16, %17, %mean_2 : tensor<?x?xi1>, tensor<?x?xf32>
    %19 = arith.addf %mean, %18 : tensor<?x?xf32>
    %20 = arith.mulf %18, %18 : tensor<?x?xf32>
    %21 = arith.subf %mean_3, %20 : tensor<?x?xf32>
    %22 = kiln.broadcast %cst_0 dims [] like %21 : tensor<f32>, tensor<?x?xf32> -> tensor<?x?xf32>
    %23 = arith.maximumf %21, %22 : tensor<?x?xf32>
    %24 = kiln.broadcast %cst dims [] like %23 : tensor<f32>, tensor<?x?xf32> -> tensor<?x?xf32>
    %25 = arith.addf %23, %24 : tensor<?x?xf32>
    %26 = math.rsqrt %25 : tensor<?x?xf32>
    %27 = arith.mulf %18, %26 : tensor<?x?xf32>
    %28 = arith.negf %27 : tensor<?x?xf32>
    %29 = kiln.broadcast %28 dims [0, 1] like %9 : tensor<?x?xf32>, tensor<?x?x128xf32> -> tensor<?x?x128xf32>
    %30 = kiln.broadcast %26 dims [0, 1] like %9 : tensor<?x?xf32>, tensor<?x?x128xf32> -> tensor<?x?x128xf32>
    %31 = math.fma %11, %30, %29 : tensor<?x?x128xf32>
    %32 = kiln.broadcast %arg4 dims [2] like %9 : tensor<128xf32>, tensor<?x?x128xf32> -> tensor<?x?x128xf32>
    %33 = arith.mulf %31, %32 : tensor<?x?x128xf32>
    %34 = kiln.broadcast %arg5 dims [2] like %9 : tensor<128xf32>, tensor<?x?x128xf32> -> tensor<?x?x128xf32>
    %35 = arith.addf %33, %34 : tensor<?x?x128xf32>
    %36 = arith.truncf %35 : tensor<?x?x128xf32> to tensor<?x?x128xbf16>
    return %8, %36, %19, %21 : tensor<?x?x128xbf16>, tensor<?x?x128xbf16>, tensor<?x?xf32>, tensor<?x?xf32>
  }
  func.func @add_scaled_normed_backward(%arg0: tensor<?x?x128xbf16> {kiln.name = "in0"}, %arg1: tensor<?x128xbf16> {kiln.name = "in3"}, %arg2: tensor<128xf32> {kiln.name = "in4"}, %arg3: tensor<?x?x128xbf16> {kiln.name = "out0"}, %arg4: tensor<?x?xf32> {kiln.name = "mean"}, %arg5: tensor<?x?xf32> {kiln.name = "saved"}, %arg6: tensor<?x?x128xbf16> {kiln.name = "dout0"}, %arg7: tensor<?x?x128xbf16> {kiln.name = "dout1"}) -> (tensor<?x?x128xbf16> {kiln.name = "din0"}, tensor<?x?x128xbf16> {kiln.name = "din1"}, tensor<128xf32> {kiln.name = "din2"}, tensor<128xf32> {kiln.name = "din4"}, tensor<128xf32> {kiln.name = "din5"}) {
    %cst = arith.constant dense<9.99999974E-6> : tensor<f32>
    %cst_0 = arith.constant dense<0.000000e+00> : tensor<f32>
    %0 = arith.extf %arg1 : tensor<?x128xbf16> to tensor<?x128xf32>
    %1 = kiln.broadcast %0 dims [0, 2] like %arg0 : tensor<?x128xf32>, tensor<?x?x128xbf16> -> tensor<?x?x128xf32>
    %2 = arith.extf %arg3 : tensor<?x?x128xbf16> to tensor<?x?x128xf32>
    %3 = kiln.broadcast %cst_0 dims [] like %arg5 : tensor<f32>, tensor<?x?xf32> -> tensor<?x?xf32>
    %4 = arith.maximumf %arg5, %3 : tensor<?x?xf32>
    %5 = kiln.broadcast %cst dims [] like %4 : tensor<f32>, tensor<?x?xf32> -> tensor<?x?xf32>
    %6 = arith.addf %4, %5 : tensor<?x?xf32>
    %7 = math.rsqrt %6 : tensor<?x?xf32>
    %8 = kiln.broadcast %7 dims [0, 1] like %2 : tensor<?x?xf32>, tensor<?x?x128xf32> -> tensor<?x?x128xf32>
    %9 = kiln.broadcast %arg2 dims [2] like %2 : tensor<128xf32>, tensor<?x?x128xf32> -> tensor<?x?x128xf32>
    %10 = arith.extf %arg6 : tensor<?x?x128xbf16> to tensor<?x?x128xf32>
    %11 = arith.extf %arg7 : tensor<?x?x128xbf16> to tensor<?x?x128xf32>
    %12 = kiln.broadcast %arg4 dims [0, 1] like %2 : tensor<?x?xf32>, tensor<?x?x128xf32> -> tensor<?x?x128xf32>
    %13 = arith.subf %2, %12 : tensor<?x?x128xf32>
    %14 = arith.mulf %13, %8 : tensor<?x?x128xf32>
    %15 = arith.mulf %11, %9 : tensor<?x?x128xf32>
    %mean = kiln.reduce  mean %15 dims [2] : tensor<?x?x128xf32> -> tensor<?x?xf32>
    %16 = kiln.broadcast %mean dims [0, 1] like %2 : tensor<?x?xf32>, tensor<?x?x128xf32> -> tensor<?x?x128xf32>
    %17 = arith.negf %16 : tensor<?x?x128xf32>
    %18 = math.fma %11, %9, %17 : tensor<?x?x128xf32>
    %19 = arith.mulf %15, %14 : tensor<?x?x128xf32>
    %mean_1 = kiln.reduce  mean %19 dims [2] : tensor<?x?x128xf32> -> tensor<?x?xf32>
    %20 = arith.mulf %7, %7 : tensor<?x?xf32>
    %21 = arith.mulf %mean_1, %20 : tensor<?x?xf32>
    %22 = kiln.broadcast %21 dims [0, 1] like %2 : tensor<?x?xf32>, tensor<?x?x128xf32> -> tensor<?x?x128xf32>
    %23 = arith.mulf %13, %22 : tensor<?x?x128xf32>
    %24 = arith.negf %23 : tensor<?x?x128xf32>
    %25 = math.fma %18, %8, %24 : tensor<?x?x128xf32>
    %26 = arith.mulf %11, %14 : tensor<?x?x128xf32>
    %sum = kiln.reduce  sum %26 dims [0, 1] : tensor<?x?x128xf32> -> tensor<128xf32>
    %sum_2 = kiln.reduce  sum %11 dims [0, 1] : tensor<?x?x128xf32> -> tensor<128xf32>
    %27 = arith.addf %10, %25 : tensor<?x?x128xf32>
    %28 = arith.mulf %27, %1 : tensor<?x?x128xf32>
    %sum_3 = kiln.reduce  sum %28 dims [0, 1] : tensor<?x?x128xf32> -> tensor<128xf32>
    %29 = arith.truncf %27 : tensor<?x?x128xf32> to tensor<?x?x128xbf16>
    %30 = arith.truncf %28 : tensor<?x?x128xf32> to tensor<?x?x128xbf16>
    return %29, %30, %sum_3, %sum, %sum_2 : tensor<?x?x128xbf16>, tensor<?x?x128xbf16>, tensor<128xf32>, tensor<128xf32>, tensor<128xf32>
  }
}

