module {
  func.func @point_attention(%arg0: tensor<?x?x256xf32> {kiln.gradient = true, kiln.name = "in0"}, %arg1: tensor<?x?x256xf32> {kiln.gradient = true, kiln.name = "in1"}, %arg2: tensor<?x256xf32> {kiln.gradient = false, kiln.name = "in2"}) -> (tensor<?x?x256xf32> {kiln.name = "out0"}) {
    %cst = arith.constant dense<0.577350259> : tensor<f32>
    %0 = kiln.broadcast %cst dims [] like %arg0 : tensor<f32>, tensor<?x?x256xf32> -> tensor<?x?x256xf32>
    %1 = arith.mulf %arg1, %0 : tensor<?x?x256xf32>
    %2 = arith.addf %arg0, %1 : tensor<?x?x256xf32>
    %3 = kiln.broadcast %arg2 dims [1, 2] like %arg0 : tensor<?x256xf32>, tensor<?x?x256xf32> -> tensor<?x?x256xf32>
    %4 = arith.addf %2, %3 : tensor<?x?x256xf32>
    %p = kiln.softmax %4 : tensor<?x?x256xf32> -> tensor<?x?x256xf32>
    return %p : tensor<?x?x256xf32>
  }
  func.func @point_attention_backward(%arg0: tensor<?x?x256xf32> {kiln.name = "in0"}, %arg1: tensor<?x?x256xf32> {kiln.name = "out0"}, %arg2: tensor<?x?x256xf32> {kiln.name = "dout0"}) -> (tensor<?x?x256xf32> {kiln.name = "din0"}, tensor<?x?x256xf32> {kiln.name = "din1"}) {
    %cst = arith.constant dense<0.577350259> : tensor<f32>
    %0 = kiln.broadcast %cst dims [] like %arg0 : tensor<f32>, tensor<?x?x256xf32> -> tensor<?x?x256xf32>
    %1 = arith.mulf %arg1, %arg2 : tensor<?x?x256xf32>
    %sum = kiln.reduce  sum %1 dims [2] : tensor<?x?x256xf32> -> tensor<?x?xf32>
    %2 = kiln.broadcast %sum dims [0, 1] like %arg1 : tensor<?x?xf32>, tensor<?x?x256xf32> -> tensor<?x?x256xf32>
    %3 = arith.subf %arg2, %2 : tensor<?x?x256xf32>
    %4 = arith.mulf %arg1, %3 : tensor<?x?x256xf32>
    %5 = arith.mulf %4, %0 : tensor<?x?x256xf32>
    return %4, %5 : tensor<?x?x256xf32>, tensor<?x?x256xf32>
  }
}

