module {
  func.func @angles_off(%arg0: tensor<?x1024xf32> {kiln.gradient = true, kiln.name = "in0"}, %arg1: tensor<?x1024xf32> {kiln.gradient = true, kiln.name = "in1"}, %arg2: tensor<1024xf32> {kiln.gradient = false, kiln.name = "in2"}, %arg3: tensor<1024xf32> {kiln.gradient = false, kiln.name = "in3"}, %arg4: tensor<1024xf32> {kiln.gradient = false, kiln.name = "in4"}, %arg5: tensor<1024xf32> {kiln.gradient = false, kiln.name = "in5"}, %arg6: tensor<1024xf32> {kiln.gradient = false, kiln.name = "in6"}) -> (tensor<?xf32> {kiln.name = "out0"}) {
    %0 = kiln.broadcast %arg2 dims [1] like %arg0 : tensor<1024xf32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
    %1 = arith.subf %arg0, %0 : tensor<?x1024xf32>
    %2 = arith.mulf %1, %1 : tensor<?x1024xf32>
    %3 = kiln.broadcast %arg3 dims [1] like %arg0 : tensor<1024xf32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
    %4 = arith.subf %arg1, %3 : tensor<?x1024xf32>
    %5 = arith.mulf %4, %4 : tensor<?x1024xf32>
    %6 = arith.addf %2, %5 : tensor<?x1024xf32>
    %7 = kiln.broadcast %arg4 dims [1] like %arg0 : tensor<1024xf32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
    %8 = arith.subf %arg0, %7 : tensor<?x1024xf32>
    %9 = arith.mulf %8, %8 : tensor<?x1024xf32>
    %10 = kiln.broadcast %arg5 dims [1] like %arg0 : tensor<1024xf32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
    %11 = arith.subf %arg1, %10 : tensor<?x1024xf32>
    %12 = arith.mulf %11, %11 : tensor<?x1024xf32>
    %13 = arith.addf %9, %12 : tensor<?x1024xf32>
    %14 = arith.minimumf %6, %13 : tensor<?x1024xf32>
    %15 = kiln.broadcast %arg6 dims [1] like %arg0 : tensor<1024xf32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
    %16 = arith.mulf %14, %15 : tensor<?x1024xf32>
    %sum = kiln.reduce  sum %16 dims [1] : tensor<?x1024xf32> -> tensor<?xf32>
    return %sum : tensor<?xf32>
  }
  func.func @angles_off_backward(%arg0: tensor<?x1024xf32> {kiln.name = "in0"}, %arg1: tensor<?x1024xf32> {kiln.name = "in1"}, %arg2: tensor<1024xf32> {kiln.name = "in2"}, %arg3: tensor<1024xf32> {kiln.name = "in3"}, %arg4: tensor<1024xf32> {kiln.name = "in4"}, %arg5: tensor<1024xf32> {kiln.name = "in5"}, %arg6: tensor<1024xf32> {kiln.name = "in6"}, %arg7: tensor<?xf32> {kiln.name = "dout0"}) -> (tensor<?x1024xf32> {kiln.name = "din0"}, tensor<?x1024xf32> {kiln.name = "din1"}) {
    %cst = arith.constant dense<0.000000e+00> : tensor<f32>
    %cst_0 = arith.constant dense<1.000000e+00> : tensor<f32>
    %cst_1 = arith.constant dense<5.000000e-01> : tensor<f32>
    %0 = kiln.broadcast %arg2 dims [1] like %arg0 : tensor<1024xf32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
    %1 = arith.subf %arg0, %0 : tensor<?x1024xf32>
    %2 = arith.mulf %1, %1 : tensor<?x1024xf32>
    %3 = kiln.broadcast %arg3 dims [1] like %arg0 : tensor<1024xf32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
    %4 = arith.subf %arg1, %3 : tensor<?x1024xf32>
    %5 = arith.mulf %4, %4 : tensor<?x1024xf32>
    %6 = arith.addf %2, %5 : tensor<?x1024xf32>
    %7 = kiln.broadcast %arg4 dims [1] like %arg0 : tensor<1024xf32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
    %8 = arith.subf %arg0, %7 : tensor<?x1024xf32>
    %9 = arith.mulf %8, %8 : tensor<?x1024xf32>
    %10 = kiln.broadcast %arg5 dims [1] like %arg0 : tensor<1024xf32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
    %11 = arith.subf %arg1, %10 : tensor<?x1024xf32>
    %12 = arith.mulf %11, %11 : tensor<?x1024xf32>
    %13 = arith.addf %9, %12 : tensor<?x1024xf32>
    %14 = arith.minimumf %6, %13 : tensor<?x1024xf32>
    %15 = kiln.broadcast %arg6 dims [1] like %arg0 : tensor<1024xf32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
    %16 = kiln.broadcast %arg7 dims [0] like %arg1 : tensor<?xf32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
    %17 = arith.mulf %16, %15 : tensor<?x1024xf32>
    %18 = kiln.broadcast %cst_1 dims [] like %17 : tensor<f32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
    %19 = kiln.broadcast %cst_0 dims [] like %17 : tensor<f32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
    %20 = kiln.broadcast %cst dims [] like %17 : tensor<f32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
    %21 = arith.cmpf oeq, %6, %13 : tensor<?x1024xf32>
    %22 = arith.cmpf oeq, %6, %14 : tensor<?x1024xf32>
    %23 = arith.select %22, %19, %20 : tensor<?x1024xi1>, tensor<?x1024xf32>
    %24 = arith.select %21, %18, %23 : tensor<?x1024xi1>, tensor<?x1024xf32>
    %25 = arith.mulf %17, %24 : tensor<?x1024xf32>
    %26 = arith.cmpf oeq, %13, %14 : tensor<?x1024xf32>
    %27 = arith.select %26, %19, %20 : tensor<?x1024xi1>, tensor<?x1024xf32>
    %28 = arith.select %21, %18, %27 : tensor<?x1024xi1>, tensor<?x1024xf32>
    %29 = arith.mulf %17, %28 : tensor<?x1024xf32>
    %30 = arith.mulf %29, %11 : tensor<?x1024xf32>
    %31 = arith.addf %30, %30 : tensor<?x1024xf32>
    %32 = arith.mulf %29, %8 : tensor<?x1024xf32>
    %33 = arith.addf %32, %32 : tensor<?x1024xf32>
    %34 = arith.mulf %25, %4 : tensor<?x1024xf32>
    %35 = arith.addf %34, %34 : tensor<?x1024xf32>
    %36 = arith.addf %31, %35 : tensor<?x1024xf32>
    %37 = arith.mulf %25, %1 : tensor<?x1024xf32>
    %38 = arith.addf %37, %37 : tensor<?x1024xf32>
    %39 = arith.addf %33, %38 : tensor<?x1024xf32>
    return %39, %36 : tensor<?x1024xf32>, tensor<?x1024xf32>
  }
}

