module {
  func.func @add(%arg0: tensor<?x128xbf16> {kiln.gradient = true, kiln.name = "in0"}, %arg1: tensor<?x128xbf16> {kiln.gradient = true, kiln.name = "in1"}, %arg2: tensor<128xf32> {kiln.gradient = true, kiln.name = "in2"}) -> (tensor<?x128xbf16> {kiln.name = "out0"}) {
    %0 = arith.extf %arg1 : tensor<?x128xbf16> to tensor<?x128xf32>
    %1 = kiln.broadcast %arg2 dims [1] like %arg0 : tensor<128xf32>, tensor<?x128xbf16> -> tensor<?x128xf32>
    %2 = arith.addf %0, %1 : tensor<?x128xf32>
    %3 = arith.extf %arg0 : tensor<?x128xbf16> to tensor<?x128xf32>
    %4 = arith.addf %3, %2 : tensor<?x128xf32>
    %5 = arith.truncf %4 : tensor<?x128xf32> to tensor<?x128xbf16>
    return %5 : tensor<?x128xbf16>
  }
  func.func @add_backward(%arg0: tensor<?x128xbf16> {kiln.name = "dout0"}) -> (tensor<?x128xbf16> {kiln.name = "din0"}, tensor<128xf32> {kiln.name = "din2"}) {
    %0 = arith.extf %arg0 : tensor<?x128xbf16> to tensor<?x128xf32>
    %sum = kiln.reduce  sum %0 dims [0] : tensor<?x128xf32> -> tensor<128xf32>
    %1 = arith.truncf %0 : tensor<?x128xf32> to tensor<?x128xbf16>
    return %1, %sum : tensor<?x128xbf16>, tensor<128xf32>
  }
}

