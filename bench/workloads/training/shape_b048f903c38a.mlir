module {
  func.func @add_rms_norm_forward(%arg0: tensor<?x1024xbf16> {kiln.gradient = true, kiln.name = "in0"}, %arg1: tensor<?x1024xf32> {kiln.gradient = true, kiln.name = "in1"}, %arg2: tensor<1024xf32> {kiln.gradient = true, kiln.name = "in2"}) -> (tensor<?x1024xbf16> {kiln.name = "out0"}, tensor<?x1024xf32> {kiln.name = "out1"}, tensor<?xf32> {kiln.name = "saved"}) {
    %cst = arith.constant dense<9.99999974E-6> : tensor<f32>
    %0 = arith.extf %arg0 : tensor<?x1024xbf16> to tensor<?x1024xf32>
    %1 = arith.addf %0, %arg1 : tensor<?x1024xf32>
    %2 = arith.mulf %1, %1 : tensor<?x1024xf32>
    %mean = kiln.reduce  mean %2 dims [1] : tensor<?x1024xf32> -> tensor<?xf32>
    %3 = kiln.broadcast %cst dims [] like %mean : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %4 = arith.addf %mean, %3 : tensor<?xf32>
    %5 = math.rsqrt %4 : tensor<?xf32>
    %6 = kiln.broadcast %5 dims [0] like %1 : tensor<?xf32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
    %7 = arith.mulf %1, %6 : tensor<?x1024xf32>
    %8 = kiln.broadcast %arg2 dims [1] like %1 : tensor<1024xf32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
    %9 = arith.mulf %7, %8 : tensor<?x1024xf32>
    %10 = arith.truncf %9 : tensor<?x1024xf32> to tensor<?x1024xbf16>
    return %10, %1, %mean : tensor<?x1024xbf16>, tensor<?x1024xf32>, tensor<?xf32>
  }
  func.func @add_rms_norm_backward(%arg0: tensor<1024xf32> {kiln.name = "in2"}, %arg1: tensor<?x1024xf32> {kiln.name = "out1"}, %arg2: tensor<?xf32> {kiln.name = "saved"}, %arg3: tensor<?x1024xbf16> {kiln.name = "dout0"}, %arg4: tensor<?x1024xf32> {kiln.name = "dout1"}) -> (tensor<?x1024xbf16> {kiln.name = "din0"}, tensor<?x1024xf32> {kiln.name = "din1"}, tensor<1024xf32> {kiln.name = "din2"}) {
    %cst = arith.constant dense<9.99999974E-6> : tensor<f32>
    %0 = kiln.broadcast %cst dims [] like %arg2 : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %1 = arith.addf %arg2, %0 : tensor<?xf32>
    %2 = math.rsqrt %1 : tensor<?xf32>
    %3 = kiln.broadcast %2 dims [0] like %arg1 : tensor<?xf32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
    %4 = arith.mulf %arg1, %3 : tensor<?x1024xf32>
    %5 = kiln.broadcast %arg0 dims [1] like %arg1 : tensor<1024xf32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
    %6 = arith.extf %arg3 : tensor<?x1024xbf16> to tensor<?x1024xf32>
    %7 = arith.mulf %6, %5 : tensor<?x1024xf32>
    %8 = arith.mulf %7, %4 : tensor<?x1024xf32>
    %mean = kiln.reduce  mean %8 dims [1] : tensor<?x1024xf32> -> tensor<?xf32>
    %9 = arith.mulf %2, %2 : tensor<?xf32>
    %10 = arith.mulf %mean, %9 : tensor<?xf32>
    %11 = kiln.broadcast %10 dims [0] like %arg1 : tensor<?xf32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
    %12 = arith.mulf %arg1, %11 : tensor<?x1024xf32>
    %13 = arith.negf %12 : tensor<?x1024xf32>
    %14 = math.fma %7, %3, %13 : tensor<?x1024xf32>
    %15 = arith.addf %arg4, %14 : tensor<?x1024xf32>
    %16 = arith.mulf %6, %4 : tensor<?x1024xf32>
    %sum = kiln.reduce  sum %16 dims [0] : tensor<?x1024xf32> -> tensor<1024xf32>
    %17 = arith.truncf %15 : tensor<?x1024xf32> to tensor<?x1024xbf16>
    return %17, %15, %sum : tensor<?x1024xbf16>, tensor<?x1024xf32>, tensor<1024xf32>
  }
}

