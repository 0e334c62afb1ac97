func.func @log_softmax_backward(%y: tensor<?x64xf32>, %dy: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %p = math.exp %y : tensor<?x64xf32>
  %sum = kiln.reduce sum %dy dims [1] : tensor<?x64xf32> -> tensor<?xf32>
  %sums = kiln.broadcast %sum dims [0] like %p : tensor<?xf32>, tensor<?x64xf32> -> tensor<?x64xf32>
  %d = arith.mulf %p, %sums : tensor<?x64xf32>
  %dx = arith.subf %dy, %d : tensor<?x64xf32>
  return %dx : tensor<?x64xf32>
}
