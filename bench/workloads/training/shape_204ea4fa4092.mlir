module {
  func.func @atoms_overlap(%arg0: tensor<?x5376xi1> {kiln.gradient = false, kiln.name = "in0"}, %arg1: tensor<?xf32> {kiln.gradient = false, kiln.name = "in1"}, %arg2: tensor<5376xf32> {kiln.gradient = false, kiln.name = "in2"}, %arg3: tensor<?xf32> {kiln.gradient = true, kiln.name = "in3"}, %arg4: tensor<?xf32> {kiln.gradient = true, kiln.name = "in4"}, %arg5: tensor<?xf32> {kiln.gradient = true, kiln.name = "in5"}, %arg6: tensor<5376xf32> {kiln.gradient = true, kiln.name = "in6"}, %arg7: tensor<5376xf32> {kiln.gradient = true, kiln.name = "in7"}, %arg8: tensor<5376xf32> {kiln.gradient = true, kiln.name = "in8"}) -> (tensor<?xf32> {kiln.name = "out0"}) {
    %cst = arith.constant dense<0.000000e+00> : tensor<f32>
    %cst_0 = arith.constant dense<1.000000e-10> : tensor<f32>
    %cst_1 = arith.constant dense<1.500000e+00> : tensor<f32>
    %0 = kiln.broadcast %arg1 dims [0] like %arg0 : tensor<?xf32>, tensor<?x5376xi1> -> tensor<?x5376xf32>
    %1 = kiln.broadcast %arg2 dims [1] like %arg0 : tensor<5376xf32>, tensor<?x5376xi1> -> tensor<?x5376xf32>
    %2 = arith.addf %0, %1 : tensor<?x5376xf32>
    %3 = kiln.broadcast %cst_1 dims [] like %arg0 : tensor<f32>, tensor<?x5376xi1> -> tensor<?x5376xf32>
    %4 = arith.subf %2, %3 : tensor<?x5376xf32>
    %5 = kiln.broadcast %arg3 dims [0] like %arg0 : tensor<?xf32>, tensor<?x5376xi1> -> tensor<?x5376xf32>
    %6 = kiln.broadcast %arg6 dims [1] like %arg0 : tensor<5376xf32>, tensor<?x5376xi1> -> tensor<?x5376xf32>
    %7 = arith.subf %5, %6 : tensor<?x5376xf32>
    %8 = arith.mulf %7, %7 : tensor<?x5376xf32>
    %9 = kiln.broadcast %arg4 dims [0] like %arg0 : tensor<?xf32>, tensor<?x5376xi1> -> tensor<?x5376xf32>
    %10 = kiln.broadcast %arg7 dims [1] like %arg0 : tensor<5376xf32>, tensor<?x5376xi1> -> tensor<?x5376xf32>
    %11 = arith.subf %9, %10 : tensor<?x5376xf32>
    %12 = arith.mulf %11, %11 : tensor<?x5376xf32>
    %13 = arith.addf %8, %12 : tensor<?x5376xf32>
    %14 = kiln.broadcast %arg5 dims [0] like %arg0 : tensor<?xf32>, tensor<?x5376xi1> -> tensor<?x5376xf32>
    %15 = kiln.broadcast %arg8 dims [1] like %arg0 : tensor<5376xf32>, tensor<?x5376xi1> -> tensor<?x5376xf32>
    %16 = arith.subf %14, %15 : tensor<?x5376xf32>
    %17 = arith.mulf %16, %16 : tensor<?x5376xf32>
    %18 = arith.addf %13, %17 : tensor<?x5376xf32>
    %19 = kiln.broadcast %cst_0 dims [] like %arg0 : tensor<f32>, tensor<?x5376xi1> -> tensor<?x5376xf32>
    %20 = arith.addf %18, %19 : tensor<?x5376xf32>
    %21 = math.sqrt %20 : tensor<?x5376xf32>
    %22 = arith.subf %4, %21 : tensor<?x5376xf32>
    %23 = kiln.broadcast %cst dims [] like %arg0 : tensor<f32>, tensor<?x5376xi1> -> tensor<?x5376xf32>
    %24 = arith.cmpf ole, %22, %23 : tensor<?x5376xf32>
    %25 = arith.select %24, %23, %22 : tensor<?x5376xi1>, tensor<?x5376xf32>
    %26 = arith.select %arg0, %25, %23 : tensor<?x5376xi1>, tensor<?x5376xf32>
    %sum = kiln.reduce  sum %26 dims [1] : tensor<?x5376xf32> -> tensor<?xf32>
    return %sum : tensor<?xf32>
  }
  func.func @atoms_overlap_backward(%arg0: tensor<?x5376xi1> {kiln.name = "in0"}, %arg1: tensor<?xf32> {kiln.name = "in1"}, %arg2: tensor<5376xf32> {kiln.name = "in2"}, %arg3: tensor<?xf32> {kiln.name = "in3"}, %arg4: tensor<?xf32> {kiln.name = "in4"}, %arg5: tensor<?xf32> {kiln.name = "in5"}, %arg6: tensor<5376xf32> {kiln.name = "in6"}, %arg7: tensor<5376xf32> {kiln.name = "in7"}, %arg8: tensor<5376xf32> {kiln.name = "in8"}, %arg9: tensor<?xf32> {kiln.name = "dout0"}) -> (tensor<?xf32> {kiln.name = "din3"}, tensor<?xf32> {kiln.name = "din4"}, tensor<?xf32> {kiln.name = "din5"}, tensor<5376xf32> {kiln.name = "din6"}, tensor<5376xf32> {kiln.name = "din7"}, tensor<5376xf32> {kiln.name = "din8"}) {
    %cst = arith.constant dense<5.000000e-01> : tensor<f32>
    %cst_0 = arith.constant dense<0.000000e+00> : tensor<f32>
    %cst_1 = arith.constant dense<1.000000e-10> : tensor<f32>
    %cst_2 = arith.constant dense<1.500000e+00> : tensor<f32>
    %0 = kiln.broadcast %arg1 dims [0] like %arg0 : tensor<?xf32>, tensor<?x5376xi1> -> tensor<?x5376xf32>
    %1 = kiln.broadcast %arg2 dims [1] like %arg0 : tensor<5376xf32>, tensor<?x5376xi1> -> tensor<?x5376xf32>
    %2 = arith.addf %0, %1 : tensor<?x5376xf32>
    %3 = kiln.broadcast %cst_2 dims [] like %arg0 : tensor<f32>, tensor<?x5376xi1> -> tensor<?x5376xf32>
    %4 = arith.subf %2, %3 : tensor<?x5376xf32>
    %5 = kiln.broadcast %arg3 dims [0] like %arg0 : tensor<?xf32>, tensor<?x5376xi1> -> tensor<?x5376xf32>
    %6 = kiln.broadcast %arg6 dims [1] like %arg0 : tensor<5376xf32>, tensor<?x5376xi1> -> tensor<?x5376xf32>
    %7 = arith.subf %5, %6 : tensor<?x5376xf32>
    %8 = arith.mulf %7, %7 : tensor<?x5376xf32>
    %9 = kiln.broadcast %arg4 dims [0] like %arg0 : tensor<?xf32>, tensor<?x5376xi1> -> tensor<?x5376xf32>
    %10 = kiln.broadcast %arg7 dims [1] like %arg0 : tensor<5376xf32>, tensor<?x5376xi1> -> tensor<?x5376xf32>
    %11 = arith.subf %9, %10 : tensor<?x5376xf32>
    %12 = arith.mulf %11, %11 : tensor<?x5376xf32>
    %13 = arith.addf %8, %12 : tensor<?x5376xf32>
    %14 = kiln.broadcast %arg5 dims [0] like %arg0 : tensor<?xf32>, tensor<?x5376xi1> -> tensor<?x5376xf32>
    %15 = kiln.broadcast %arg8 dims [1] like %arg0 : tensor<5376xf32>, tensor<?x5376xi1> -> tensor<?x5376xf32>
    %16 = arith.subf %14, %15 : tensor<?x5376xf32>
    %17 = arith.mulf %16, %16 : tensor<?x5376xf32>
    %18 = arith.addf %13, %17 : tensor<?x5376xf32>
    %19 = kiln.broadcast %cst_1 dims [] like %arg0 : tensor<f32>, tensor<?x5376xi1> -> tensor<?x5376xf32>
    %20 = arith.addf %18, %19 : tensor<?x5376xf32>
    %21 = math.sqrt %20 : tensor<?x5376xf32>
    %22 = arith.subf %4, %21 : tensor<?x5376xf32>
    %23 = kiln.broadcast %cst_0 dims [] like %arg0 : tensor<f32>, tensor<?x5376xi1> -> tensor<?x5376xf32>
    %24 = arith.cmpf ole, %22, %23 : tensor<?x5376xf32>
    %25 = kiln.broadcast %arg9 dims [0] like %arg0 : tensor<?xf32>, tensor<?x5376xi1> -> tensor<?x5376xf32>
    %26 = kiln.broadcast %cst_0 dims [] like %25 : tensor<f32>, tensor<?x5376xf32> -> tensor<?x5376xf32>
    %27 = arith.select %arg0, %25, %26 : tensor<?x5376xi1>, tensor<?x5376xf32>
    %28 = kiln.broadcast %cst_0 dims [] like %27 : tensor<f32>, tensor<?x5376xf32> -> tensor<?x5376xf32>
    %29 = arith.select %24, %28, %27 : tensor<?x5376xi1>, tensor<?x5376xf32>
    %30 = arith.negf %29 : tensor<?x5376xf32>
    %31 = kiln.broadcast %cst dims [] like %30 : tensor<f32>, tensor<?x5376xf32> -> tensor<?x5376xf32>
    %32 = arith.mulf %30, %31 : tensor<?x5376xf32>
    %33 = arith.divf %32, %21 : tensor<?x5376xf32>
    %34 = arith.mulf %33, %16 : tensor<?x5376xf32>
    %35 = arith.addf %34, %34 : tensor<?x5376xf32>
    %36 = arith.negf %35 : tensor<?x5376xf32>
    %sum = kiln.reduce  sum %36 dims [0] : tensor<?x5376xf32> -> tensor<5376xf32>
    %sum_3 = kiln.reduce  sum %35 dims [1] : tensor<?x5376xf32> -> tensor<?xf32>
    %37 = arith.mulf %33, %11 : tensor<?x5376xf32>
    %38 = arith.addf %37, %37 : tensor<?x5376xf32>
    %39 = arith.negf %38 : tensor<?x5376xf32>
    %sum_4 = kiln.reduce  sum %39 dims [0] : tensor<?x5376xf32> -> tensor<5376xf32>
    %sum_5 = kiln.reduce  sum %38 dims [1] : tensor<?x5376xf32> -> tensor<?xf32>
    %40 = arith.mulf %33, %7 : tensor<?x5376xf32>
    %41 = arith.addf %40, %40 : tensor<?x5376xf32>
    %42 = arith.negf %41 : tensor<?x5376xf32>
    %sum_6 = kiln.reduce  sum %42 dims [0] : tensor<?x5376xf32> -> tensor<5376xf32>
    %sum_7 = kiln.reduce  sum %41 dims [1] : tensor<?x5376xf32> -> tensor<?xf32>
    return %sum_7, %sum_5, %sum_3, %sum_6, %sum_4, %sum : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<5376xf32>, tensor<5376xf32>, tensor<5376xf32>
  }
}

