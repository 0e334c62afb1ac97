module {
  func.func @rms_norm_forward(%arg0: tensor<?x1280xf32> {kiln.gradient = true, kiln.name = "in0"}, %arg1: tensor<1280xf32> {kiln.gradient = true, kiln.name = "in1"}) -> (tensor<?x1280xbf16> {kiln.name = "out0"}, tensor<?xf32> {kiln.name = "saved"}) {
    %cst = arith.constant dense<9.99999974E-6> : tensor<f32>
    %0 = arith.mulf %arg0, %arg0 : tensor<?x1280xf32>
    %mean = kiln.reduce  mean %0 dims [1] : tensor<?x1280xf32> -> tensor<?xf32>
    %1 = kiln.broadcast %cst dims [] like %mean : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %2 = arith.addf %mean, %1 : tensor<?xf32>
    %3 = math.rsqrt %2 : tensor<?xf32>
    %4 = kiln.broadcast %3 dims [0] like %arg0 : tensor<?xf32>, tensor<?x1280xf32> -> tensor<?x1280xf32>
    %5 = arith.mulf %arg0, %4 : tensor<?x1280xf32>
    %6 = kiln.broadcast %arg1 dims [1] like %arg0 : tensor<1280xf32>, tensor<?x1280xf32> -> tensor<?x1280xf32>
    %7 = arith.mulf %5, %6 : tensor<?x1280xf32>
    %8 = arith.truncf %7 : tensor<?x1280xf32> to tensor<?x1280xbf16>
    return %8, %mean : tensor<?x1280xbf16>, tensor<?xf32>
  }
  func.func @rms_norm_backward(%arg0: tensor<?x1280xf32> {kiln.name = "in0"}, %arg1: tensor<1280xf32> {kiln.name = "in1"}, %arg2: tensor<?xf32> {kiln.name = "saved"}, %arg3: tensor<?x1280xbf16> {kiln.name = "dout0"}) -> (tensor<?x1280xf32> {kiln.name = "din0"}, tensor<1280xf32> {kiln.name = "din1"}) {
    %cst = arith.constant dense<9.99999974E-6> : tensor<f32>
    %0 = kiln.broadcast %cst dims [] like %arg2 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %1 = arith.addf %arg2, %0 : tensor<?xf32>
    %2 = math.rsqrt %1 : tensor<?xf32>
    %3 = kiln.broadcast %2 dims [0] like %arg0 : tensor<?xf32>, tensor<?x1280xf32> -> tensor<?x1280xf32>
    %4 = arith.mulf %arg0, %3 : tensor<?x1280xf32>
    %5 = kiln.broadcast %arg1 dims [1] like %arg0 : tensor<1280xf32>, tensor<?x1280xf32> -> tensor<?x1280xf32>
    %6 = arith.extf %arg3 : tensor<?x1280xbf16> to tensor<?x1280xf32>
    %7 = arith.mulf %6, %5 : tensor<?x1280xf32>
    %8 = arith.mulf %7, %4 : tensor<?x1280xf32>
    %mean = kiln.reduce  mean %8 dims [1] : tensor<?x1280xf32> -> tensor<?xf32>
    %9 = arith.mulf %2, %2 : tensor<?xf32>
    %10 = arith.mulf %mean, %9 : tensor<?xf32>
    %11 = kiln.broadcast %10 dims [0] like %arg0 : tensor<?xf32>, tensor<?x1280xf32> -> tensor<?x1280xf32>
    %12 = arith.mulf %arg0, %11 : tensor<?x1280xf32>
    %13 = arith.negf %12 : tensor<?x1280xf32>
    %14 = math.fma %7, %3, %13 : tensor<?x1280xf32>
    %15 = arith.mulf %6, %4 : tensor<?x1280xf32>
    %sum = kiln.reduce  sum %15 dims [0] : tensor<?x1280xf32> -> tensor<1280xf32>
    return %14, %sum : tensor<?x1280xf32>, tensor<1280xf32>
  }
}

