func.func @log_softmax_backward(%y: tensor<?x23xf32>, %dy: tensor<?x23xf32>) -> tensor<?x23xf32> {
  %p = math.exp %y : tensor<?x23xf32>
  %sum = kiln.reduce sum %dy dims [1] : tensor<?x23xf32> -> tensor<?xf32>
  %sums = kiln.broadcast %sum dims [0] like %p : tensor<?xf32>, tensor<?x23xf32> -> tensor<?x23xf32>
  %d = arith.mulf %p, %sums : tensor<?x23xf32>
  %dx = arith.subf %dy, %d : tensor<?x23xf32>
  return %dx : tensor<?x23xf32>
}
