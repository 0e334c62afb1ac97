// Masks of dropout, of elements taken as rows of 1024, whoever computes what they mask: the text of
// runtime/Mask.cpp, which every program with dropout asks for. %like lends its shape alone.
func.func @mask(%like: tensor<?x1024xi1>, %seed: tensor<i64>, %offset: tensor<i64>,
    %least: tensor<i32>) -> tensor<?x1024xi1> {
  %u = kiln.random %seed, %offset bits 16 like %like
      : tensor<?x1024xi1> -> tensor<?x1024xi32>
  %leasts = kiln.broadcast %least dims [] like %u
      : tensor<i32>, tensor<?x1024xi32> -> tensor<?x1024xi32>
  %mask = arith.cmpi sge, %u, %leasts : tensor<?x1024xi32>
  return %mask : tensor<?x1024xi1>
}
