func.func @softmax_backward(%y: tensor<?x256xf32>, %dy: tensor<?x256xf32>) -> tensor<?x256xf32> {
  %p = arith.mulf %y, %dy : tensor<?x256xf32>
  %sum = kiln.reduce sum %p dims [1] : tensor<?x256xf32> -> tensor<?xf32>
  %sums = kiln.broadcast %sum dims [0] like %y : tensor<?xf32>, tensor<?x256xf32> -> tensor<?x256xf32>
  %d = arith.subf %dy, %sums : tensor<?x256xf32>
  %dx = arith.mulf %y, %d : tensor<?x256xf32>
  return %dx : tensor<?x256xf32>
}
