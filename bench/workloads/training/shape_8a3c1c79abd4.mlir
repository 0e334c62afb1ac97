func.func @softmax_backward(%y: tensor<?x384xf32>, %dy: tensor<?x384xf32>) -> tensor<?x384xf32> {
  %p = arith.mulf %y, %dy : tensor<?x384xf32>
  %sum = kiln.reduce sum %p dims [1] : tensor<?x384xf32> -> tensor<?xf32>
  %sums = kiln.broadcast %sum dims [0] like %y : tensor<?xf32>, tensor<?x384xf32> -> tensor<?x384xf32>
  %d = arith.subf %dy, %sums : tensor<?x384xf32>
  %dx = arith.mulf %y, %d : tensor<?x384xf32>
  return %dx : tensor<?x384xf32>
}
