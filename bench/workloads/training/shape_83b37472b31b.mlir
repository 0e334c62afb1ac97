func.func @softmax(%x: tensor<?x256xf32>) -> tensor<?x256xf32> {
  %y = kiln.softmax %x : tensor<?x256xf32> -> tensor<?x256xf32>
  return %y : tensor<?x256xf32>
}
