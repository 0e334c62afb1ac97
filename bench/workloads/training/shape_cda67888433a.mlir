func.func @softmax(%x: tensor<?x384xf32>) -> tensor<?x384xf32> {
  %y = kiln.softmax %x : tensor<?x384xf32> -> tensor<?x384xf32>
  return %y : tensor<?x384xf32>
}
