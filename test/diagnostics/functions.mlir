// What is no function that Kiln compiles: each with its place and what is allowed, before any pass
// works on it.
// RUN: kiln-opt %s -split-input-file --kiln-fuse -verify-diagnostics -o /dev/null

// expected-error @+1 {{argument 0 is of type 'tensor<*xf32>'; functions are over tensors of known rank}}
func.func @unranked(%x: tensor<*xf32>) -> tensor<*xf32> {
  %y = math.exp %x : tensor<*xf32>
  return %y : tensor<*xf32>
}
// -----
// expected-error @+1 {{argument 1 is of type 'memref<4xf32>'}}
func.func @memory(%x: tensor<?x8xf32>, %m: memref<4xf32>) -> tensor<?x8xf32> {
  %y = math.exp %x : tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
// -----
// expected-error @+1 {{argument 0 is of type 'f32'}}
func.func @number(%s: f32, %x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = math.exp %x : tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
// -----
// expected-error @+1 {{argument 0 is of type 'tensor<?x8xi8>'; functions are over tensors of known rank, without encoding, of f32, bf16}}
func.func @bytes(%x: tensor<?x8xi8>) -> tensor<?x8xi8> {
  %y = arith.addi %x, %x : tensor<?x8xi8>
  return %y : tensor<?x8xi8>
}
// -----
func.func @inside(%x: tensor<?x8xi32>) -> tensor<?x8xi32> {
  // expected-error @+1 {{a result is of type 'tensor<?x8xi8>'}}
  %y = arith.trunci %x : tensor<?x8xi32> to tensor<?x8xi8>
  %z = arith.extsi %y : tensor<?x8xi8> to tensor<?x8xi32>
  return %z : tensor<?x8xi32>
}
// -----
// expected-error @+1 {{'nothing' returns nothing, so there is nothing to compute; return at least one tensor}}
func.func @nothing(%x: tensor<?x8xf32>) {
  return
}
// -----
func.func @no_width(%x: tensor<?x0xf32>) -> tensor<?x0xf32> {
  // expected-error @+1 {{rows of 0 elements: the last dimension of [?, 0] is 0; a row has at least 1}}
  %y = math.exp %x : tensor<?x0xf32>
  return %y : tensor<?x0xf32>
}
// -----
func.func @no_width_summed(%x: tensor<?x4x0xf32>) -> tensor<?x0xf32> {
  // expected-error @+1 {{rows of 0 elements are summed; a row has at least 1}}
  %y = kiln.reduce sum %x dims [1] : tensor<?x4x0xf32> -> tensor<?x0xf32>
  return %y : tensor<?x0xf32>
}
// -----
// expected-error @+1 {{argument 0 has shape [9223372036854775807, 128]; a tensor has up to 2^56 elements}}
func.func @endless(%x: tensor<9223372036854775807x128xf32>) -> tensor<9223372036854775807x128xf32> {
  %y = math.exp %x : tensor<9223372036854775807x128xf32>
  return %y : tensor<9223372036854775807x128xf32>
}
// -----
// No rows are as good as any, also where their number is in the text.
func.func @no_rows(%x: tensor<0x8xf32>) -> (tensor<0x8xf32>, tensor<0xf32>) {
  %y = math.exp %x : tensor<0x8xf32>
  %m = kiln.reduce mean %x dims [1] : tensor<0x8xf32> -> tensor<0xf32>
  return %y, %m : tensor<0x8xf32>, tensor<0xf32>
}
