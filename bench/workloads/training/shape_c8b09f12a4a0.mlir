module {
  func.func @add_normed_forward(%arg0: tensor<?x64xbf16> {kiln.gradient = true, kiln.name = "in0"}, %arg1: tensor<?x64xbf16> {kiln.gradient = true, kiln.name = "in1"}, %arg2: tensor<64xf32> {kiln.gradient = true, kiln.name = "in2"}, %arg3: tensor<64xf32> {kiln.gradient = true, kiln.name = "in3"}, %arg4: tensor<64xf32> {kiln.gradient = true, kiln.name = "in4"}) -> (tensor<?x64xbf16> {kiln.name = "out0"}, tensor<?x64xbf16> {kiln.name = "out1"}, tensor<?xf32> {kiln.name = "mean"}, tensor<?xf32> {kiln.name = "saved"}) {
    %cst = arith.constant dense<9.99999974E-6> : tensor<f32>
    %cst_0 = arith.constant dense<0.000000e+00> : tensor<f32>
    %cst_1 = arith.constant dense<1.600000e+01> : tensor<f32>
    %0 = arith.extf %arg1 : tensor<?x64xbf16> to tensor<?x64xf32>
    %1 = kiln.broadcast %arg2 dims [1] like %arg0 : tensor<64xf32>, tensor<?x64xbf16> -> tensor<?x64xf32>
    %2 = arith.addf %0, %1 : tensor<?x64xf32>
    %3 = arith.extf %arg0 : tensor<?x64xbf16> to tensor<?x64xf32>
    %4 = arith.addf %3, %2 : tensor<?x64xf32>
    %5 = arith.truncf %4 : tensor<?x64xf32> to tensor<?x64xbf16>
    %6 = arith.extf %5 : tensor<?x64xbf16> to tensor<?x64xf32>
    %mean = kiln.reduce  mean %6 dims [1] : tensor<?x64xf32> -> tensor<?xf32>
    %7 = kiln.broadcast %mean dims [0] like %6 : tensor<?xf32>, tensor<?x64xf32> -> tensor<?x64xf32>
    %8 = arith.subf %6, %7 : tensor<?x64xf32>
    %mean_2 = kiln.reduce  mean %8 dims [1] : tensor<?x64xf32> -> tensor<?xf32>
    %9 = arith.mulf %8, %8 : tensor<?x64xf32>
    %mean_3 = kiln.reduce  mean %9 dims [1] : tensor<?x64xf32> -> tensor<?xf32>
    %10 = kiln.broadcast %cst_1 dims [] like %mean_3 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %11 = arith.mulf %mean_3, %10 : tensor<?xf32>
    %12 = arith.mulf %mean, %mean : tensor<?xf32>
    %13 = arith.cmpf ole, %12, %11 : tensor<?xf32>
    %14 = kiln.broadcast %cst_0 dims [] like %mean_2 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %15 = arith.select %13, %14, %mean_2 : tensor<?xi1>, tensor<?xf32>
    %16 = arith.addf %mean, %15 : tensor<?xf32>
    %17 = arith.mulf %15, %15 : tensor<?xf32>
    %18 = arith.subf %mean_3, %17 : tensor<?xf32>
    %19 = kiln.broadcast %cst_0 dims [] like %18 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %20 = arith.maximumf %18, %19 : tensor<?xf32>
    %21 = kiln.broadcast %cst dims [] like %20 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %22 = arith.addf %20, %21 : tensor<?xf32>
    %23 = math.rsqrt %22 : tensor<?xf32>
    %24 = arith.mulf %15, %23 : tensor<?xf32>
    %25 = arith.negf %24 : tensor<?xf32>
    %26 = kiln.broadcast %25 dims [0] like %6 : tensor<?xf32>, tensor<?x64xf32> -> tensor<?x64xf32>
    %27 = kiln.broadcast %23 dims [0] like %6 : tensor<?xf32>, tensor<?x64xf32> -> tensor<?x64xf32>
    %28 = math.fma %8, %27, %26 : tensor<?x64xf32>
    %29 = kiln.broadcast %arg3 dims [1] like %6 : tensor<64xf32>, tensor<?x64xf32> -> tensor<?x64xf32>
    %30 = arith.mulf %28, %29 : tensor<?x64xf32>
    %31 = kiln.broadcast %arg4 dims [1] like %6 : tensor<64xf32>, tensor<?x64xf32> -> tensor<?x64xf32>
    %32 = arith.addf %30, %31 : tensor<?x64xf32>
    %33 = arith.truncf %32 : tensor<?x64xf32> to tensor<?x64xbf16>
    return %5, %33, %16, %18 : tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<?xf32>, tensor<?xf32>
  }
  func.func @add_normed_backward(%arg0: tensor<64xf32> {kiln.name = "in3"}, %arg1: tensor<?x64xbf16> {kiln.name = "out0"}, %arg2: tensor<?xf32> {kiln.name = "mean"}, %arg3: tensor<?xf32> {kiln.name = "saved"}, %arg4: tensor<?x64xbf16> {kiln.name = "dout0"}, %arg5: tensor<?x64xbf16> {kiln.name = "dout1"}) -> (tensor<?x64xbf16> {kiln.name = "din0"}, tensor<64xf32> {kiln.name = "din2"}, tensor<64xf32> {kiln.name = "din3"}, tensor<64xf32> {kiln.name = "din4"}) {
    %cst = arith.constant dense<9.99999974E-6> : tensor<f32>
    %cst_0 = arith.constant dense<0.000000e+00> : tensor<f32>
    %0 = arith.extf %arg1 : tensor<?x64xbf16> to tensor<?x64xf32>
    %1 = kiln.broadcast %cst_0 dims [] like %arg3 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %2 = arith.maximumf %arg3, %1 : tensor<?xf32>
    %3 = kiln.broadcast %cst dims [] like %2 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %4 = arith.addf %2, %3 : tensor<?xf32>
    %5 = math.rsqrt %4 : tensor<?xf32>
    %6 = kiln.broadcast %5 dims [0] like %0 : tensor<?xf32>, tensor<?x64xf32> -> tensor<?x64xf32>
    %7 = kiln.broadcast %arg0 dims [1] like %0 : tensor<64xf32>, tensor<?x64xf32> -> tensor<?x64xf32>
    %8 = arith.extf %arg4 : tensor<?x64xbf16> to tensor<?x64xf32>
    %9 = arith.extf %arg5 : tensor<?x64xbf16> to tensor<?x64xf32>
    %10 = kiln.broadcast %arg2 dims [0] like %0 : tensor<?xf32>, tensor<?x64xf32> -> tensor<?x64xf32>
    %11 = arith.subf %0, %10 : tensor<?x64xf32>
    %12 = arith.mulf %11, %6 : tensor<?x64xf32>
    %13 = arith.mulf %9, %7 : tensor<?x64xf32>
    %mean = kiln.reduce  mean %13 dims [1] : tensor<?x64xf32> -> tensor<?xf32>
    %14 = kiln.broadcast %mean dims [0] like %0 : tensor<?xf32>, tensor<?x64xf32> -> tensor<?x64xf32>
    %15 = arith.negf %14 : tensor<?x64xf32>
    %16 = math.fma %9, %7, %15 : tensor<?x64xf32>
    %17 = arith.mulf %13, %12 : tensor<?x64xf32>
    %mean_1 = kiln.reduce  mean %17 dims [1] : tensor<?x64xf32> -> tensor<?xf32>
    %18 = arith.mulf %5, %5 : tensor<?xf32>
    %19 = arith.mulf %mean_1, %18 : tensor<?xf32>
    %20 = kiln.broadcast %19 dims [0] like %0 : tensor<?xf32>, tensor<?x64xf32> -> tensor<?x64xf32>
    %21 = arith.mulf %11, %20 : tensor<?x64xf32>
    %22 = arith.negf %21 : tensor<?x64xf32>
    %23 = math.fma %16, %6, %22 : tensor<?x64xf32>
    %24 = arith.mulf %9, %12 : tensor<?x64xf32>
    %sum = kiln.reduce  sum %24 dims [0] : tensor<?x64xf32> -> tensor<64xf32>
    %sum_2 = kiln.reduce  sum %9 dims [0] : tensor<?x64xf32> -> tensor<64xf32>
    %25 = arith.addf %8, %23 : tensor<?x64xf32>
    %sum_3 = kiln.reduce  sum %25 dims [0] : tensor<?x64xf32> -> tensor<64xf32>
    %26 = arith.truncf %25 : tensor<?x64xf32> to tensor<?x64xbf16>
    return %26, %sum_3, %sum, %sum_2 : tensor<?x64xbf16>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
  }
}

