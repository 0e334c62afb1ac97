// Wrong rank, shape and dtype where operations meet.
// RUN: kiln-opt %s -split-input-file -verify-diagnostics -o /dev/null

func.func @rank(%x: tensor<8xf32>, %y: tensor<4x8xf32>) {
  // expected-note @-1 {{prior use here}}
  // expected-error @+1 {{use of value '%y' expects different type than prior uses: 'tensor<8xf32>' vs 'tensor<4x8xf32>'}}
  %z = arith.addf %x, %y : tensor<8xf32>
  return
}
// -----
func.func @unranked(%x: tensor<*xf32>) {
  // expected-error @+1 {{operand #0 must be ranked tensor of}}
  %p = kiln.softmax %x : tensor<*xf32> -> tensor<4xf32>
  return
}
// -----
func.func @shape(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'math.exp' op requires the same type for all operands and results}}
  %y = "math.exp"(%x) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return
}
// -----
func.func @dtype(%x: tensor<4x8xi32>) {
  // expected-error @+1 {{operand #0 must be floating-point-like, but got 'tensor<4x8xi32>'}}
  %y = math.exp %x : tensor<4x8xi32>
  return
}
// -----
func.func @widening(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{are cast incompatible}}
  %y = arith.extf %x : tensor<4x8xf32> to tensor<4x8xbf16>
  return
}
// -----
func.func @vector(%x: vector<8xf32>) {
  // expected-error @+1 {{operand #0 must be ranked tensor of}}
  %0 = "kiln.reduce"(%x) <{kind = #kiln<kind sum>, dims = array<i64: 0>}> : (vector<8xf32>) -> tensor<f32>
  return
}
