// One over the number of rows that count, of a routed mean loss.
func.func @cross_entropy_share(%arg0: tensor<?xi64> {kiln.name = "target"}) -> (tensor<f32> {kiln.name = "share"}) {
  %cst = arith.constant dense<-100> : tensor<i64>
  %0 = kiln.broadcast %cst dims [] like %arg0 : tensor<i64>, tensor<?xi64> -> tensor<?xi64>
  %1 = arith.cmpi ne, %arg0, %0 : tensor<?xi64>
  %2 = arith.uitofp %1 : tensor<?xi1> to tensor<?xf32>
  %sum = kiln.reduce  sum %2 dims [0] : tensor<?xf32> -> tensor<f32>
  %cst_0 = arith.constant dense<1.000000e+00> : tensor<f32>
  %3 = arith.divf %cst_0, %sum : tensor<f32>
  return %3 : tensor<f32>
}
