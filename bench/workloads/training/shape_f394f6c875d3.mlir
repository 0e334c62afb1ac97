func.func @log_softmax(%x: tensor<?x23xf32>) -> tensor<?x23xf32> {
  %y = kiln.log_softmax %x : tensor<?x23xf32> -> tensor<?x23xf32>
  return %y : tensor<?x23xf32>
}
