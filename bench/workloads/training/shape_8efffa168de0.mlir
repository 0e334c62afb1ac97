func.func @log_softmax(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %y = kiln.log_softmax %x : tensor<?x64xf32> -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
