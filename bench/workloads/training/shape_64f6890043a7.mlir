func.func @log_softmax(%x: tensor<?x50xf32>) -> tensor<?x50xf32> {
  %y = kiln.log_softmax %x : tensor<?x50xf32> -> tensor<?x50xf32>
  return %y : tensor<?x50xf32>
}
