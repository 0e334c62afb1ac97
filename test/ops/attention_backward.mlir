// kiln.attention_backward: its text and what it refuses. The rules that it shares with kiln.attention
// have all their messages in attention.mlir.
// RUN: split-file %s %t
// RUN: kiln-opt %t/text.mlir | kiln-opt | FileCheck %t/text.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/second.mlir --kiln-differentiate -verify-diagnostics

//--- text.mlir
// CHECK-LABEL: func.func @some
func.func @some(%d: tensor<4x?x16xbf16>, %delta: tensor<4x?xf32>, %lse: tensor<4x?xf32>, %q: tensor<4x?x8xbf16>, %k: tensor<2x?x8xbf16>, %v: tensor<2x?x16xbf16>, %qs: tensor<3xi32>, %ks: tensor<3xi32>) {
  // CHECK: %dq = kiln.attention_backward %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} {scale = 1.250000e-01 : f32} : (tensor<4x?x16xbf16>, tensor<4x?xf32>, tensor<4x?xf32>, tensor<4x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x16xbf16>) -> query tensor<4x?x8xf32>
  %0 = kiln.attention_backward %d, %delta, %lse, %q, %k, %v {scale = 0.125 : f32} : (tensor<4x?x16xbf16>, tensor<4x?xf32>, tensor<4x?xf32>, tensor<4x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x16xbf16>) -> query tensor<4x?x8xf32>
  // CHECK: %dk, %dv = kiln.attention_backward {{.*}} starts {{.*}} -> key tensor<2x?x8xbf16> value tensor<2x?x16xbf16>
  %1:2 = kiln.attention_backward %d, %delta, %lse, %q, %k, %v starts %qs, %ks : (tensor<4x?x16xbf16>, tensor<4x?xf32>, tensor<4x?xf32>, tensor<4x?x8xbf16>, tensor<2x?x8xbf16>, tensor<2x?x16xbf16>, tensor<3xi32>, tensor<3xi32>) -> key tensor<2x?x8xbf16> value tensor<2x?x16xbf16>
  return
}
// CHECK-LABEL: func.func @all
func.func @all(%d: tensor<4x5x16xf32>, %r: tensor<4x5xf32>, %q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x6x16xf32>, %b: tensor<1x5x6xf16>, %m: tensor<4x1x6xi1>, %s: tensor<i64>) {
  // CHECK: %dq, %dk, %dv, %dbias = kiln.attention_backward {{.*}} bias %{{[^ ]*}} mask %{{[^ ]*}} dropout %{{[^ ]*}}, %{{[^ ]*}} p 5.000000e-01 {causal = #kiln.causal<last>} : {{.*}} -> query tensor<4x5x8xf32> key tensor<2x6x8xf32> value tensor<2x6x16xf32> bias tensor<1x5x6xf32>
  %0:4 = kiln.attention_backward %d, %r, %r, %q, %k, %v bias %b mask %m dropout %s, %s p 0.5 {causal = #kiln.causal<last>} : (tensor<4x5x16xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x16xf32>, tensor<1x5x6xf16>, tensor<4x1x6xi1>, tensor<i64>, tensor<i64>) -> query tensor<4x5x8xf32> key tensor<2x6x8xf32> value tensor<2x6x16xf32> bias tensor<1x5x6xf32>
  return
}

//--- second.mlir
func.func @f(%d: tensor<4x5x8xf32>, %r: tensor<4x5xf32>, %q: tensor<4x5x8xf32>) -> tensor<4x5x8xf32> {
  // expected-error @+1 {{has no gradient: second derivatives of attention are not available; mark the arguments or results that lead here {kiln.gradient = false}, or compute this part with ATen}}
  %0 = kiln.attention_backward %d, %r, %r, %q, %q, %q : (tensor<4x5x8xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5x8xf32>, tensor<4x5x8xf32>, tensor<4x5x8xf32>) -> value tensor<4x5x8xf32>
  return %0 : tensor<4x5x8xf32>
}

//--- errors.mlir
func.func @heads(%d: tensor<2x4x5x16xf32>, %r: tensor<2x4x5xf32>, %q: tensor<2x4x5x8xf32>, %k: tensor<2x3x6x8xf32>, %v: tensor<2x3x6x16xf32>) {
  // expected-error @+1 {{heads of query, key and value are [4, 3, 3]; they must be constants, one number for key and value, and the query's a multiple of it}}
  %dq = kiln.attention_backward %d, %r, %r, %q, %k, %v : (tensor<2x4x5x16xf32>, tensor<2x4x5xf32>, tensor<2x4x5xf32>, tensor<2x4x5x8xf32>, tensor<2x3x6x8xf32>, tensor<2x3x6x16xf32>) -> query tensor<2x4x5x8xf32>
  return
}
// -----
func.func @bias(%d: tensor<2x4x5x16xf32>, %r: tensor<2x4x5xf32>, %q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x16xf32>, %b: tensor<4x5x6xf32>) {
  // expected-error @+1 {{bias has shape [4, 5, 6], the scores [2, 4, 5, 6]; give it their rank, and in each dimension their size or 1}}
  %dq = kiln.attention_backward %d, %r, %r, %q, %k, %v bias %b : (tensor<2x4x5x16xf32>, tensor<2x4x5xf32>, tensor<2x4x5xf32>, tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x16xf32>, tensor<4x5x6xf32>) -> query tensor<2x4x5x8xf32>
  return
}
// -----
func.func @starts(%d: tensor<4x5x16xf32>, %r: tensor<4x5xf32>, %q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x6x16xf32>, %s: tensor<3xi32>, %t: tensor<?xi32>) {
  // expected-error @+1 {{query_starts and key_starts have lengths [3, ?]; both have n + 1 numbers for n sequences, the last where the last one ends}}
  %dq = kiln.attention_backward %d, %r, %r, %q, %k, %v starts %s, %t : (tensor<4x5x16xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x16xf32>, tensor<3xi32>, tensor<?xi32>) -> query tensor<4x5x8xf32>
  return
}
// -----
func.func @probability(%d: tensor<2x4x5x16xf32>, %r: tensor<2x4x5xf32>, %q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x16xf32>, %s: tensor<i64>) {
  // expected-error @+1 {{p = 1.500000e+00 is no probability; give a number from 0 to 1}}
  %dq = kiln.attention_backward %d, %r, %r, %q, %k, %v dropout %s, %s p 1.5 : (tensor<2x4x5x16xf32>, tensor<2x4x5xf32>, tensor<2x4x5xf32>, tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x16xf32>, tensor<i64>, tensor<i64>) -> query tensor<2x4x5x8xf32>
  return
}
// -----
func.func @scale(%d: tensor<2x4x5x16xf32>, %r: tensor<2x4x5xf32>, %q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x16xf32>) {
  // expected-error @+1 {{scale is INF; it must be finite}}
  %dq = kiln.attention_backward %d, %r, %r, %q, %k, %v {scale = 0x7F800000 : f32} : (tensor<2x4x5x16xf32>, tensor<2x4x5xf32>, tensor<2x4x5xf32>, tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x16xf32>) -> query tensor<2x4x5x8xf32>
  return
}
// -----
func.func @output_gradient(%d: tensor<4x5x8xf32>, %r: tensor<4x5xf32>, %q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x6x16xf32>) {
  // expected-error @+1 {{output_gradient has shape [4, 5, 8], query and value asks for [4, 5, 16]}}
  %0 = kiln.attention_backward %d, %r, %r, %q, %k, %v : (tensor<4x5x8xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x16xf32>) -> query tensor<4x5x8xf32>
  return
}
// -----
func.func @delta(%d: tensor<4x5x16xf32>, %r: tensor<5xf32>, %q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x6x16xf32>) {
  // expected-error @+1 {{delta has shape [5], the input asks for [4, 5]}}
  %0 = kiln.attention_backward %d, %r, %r, %q, %k, %v : (tensor<4x5x16xf32>, tensor<5xf32>, tensor<5xf32>, tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x16xf32>) -> query tensor<4x5x8xf32>
  return
}
// -----
func.func @delta_type(%d: tensor<4x5x16xf32>, %r: tensor<4x5xf16>, %q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x6x16xf32>) {
  // expected-error @+1 {{delta has elements of type 'f16', it is always f32}}
  %0 = kiln.attention_backward %d, %r, %r, %q, %k, %v : (tensor<4x5x16xf32>, tensor<4x5xf16>, tensor<4x5xf16>, tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x16xf32>) -> query tensor<4x5x8xf32>
  return
}
// -----
func.func @lse(%d: tensor<4x5x8xf32>, %delta: tensor<4x5xf32>, %r: tensor<4x6xf32>, %q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>) {
  // expected-error @+1 {{lse has shape [4, 6], the input asks for [4, 5]}}
  %0 = kiln.attention_backward %d, %delta, %r, %q, %k, %k : (tensor<4x5x8xf32>, tensor<4x5xf32>, tensor<4x6xf32>, tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x8xf32>) -> query tensor<4x5x8xf32>
  return
}
// -----
func.func @nothing(%d: tensor<4x5x16xf32>, %r: tensor<4x5xf32>, %q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x6x16xf32>) {
  // expected-error @+1 {{gives no gradient; ask for at least one of query, key, value and bias}}
  kiln.attention_backward %d, %r, %r, %q, %k, %v : (tensor<4x5x16xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x16xf32>) ->
  return
}
// -----
func.func @no_bias(%d: tensor<4x5x16xf32>, %r: tensor<4x5xf32>, %q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x6x16xf32>) {
  // expected-error @+1 {{gives the gradient of a bias that it does not have; leave that out}}
  %0 = kiln.attention_backward %d, %r, %r, %q, %k, %v : (tensor<4x5x16xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x16xf32>) -> bias tensor<1x5x6xf32>
  return
}
// -----
func.func @d_query(%d: tensor<4x5x16xf32>, %r: tensor<4x5xf32>, %q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x6x16xf32>) {
  // expected-error @+1 {{d_query has shape [2, 6, 8], the query asks for [4, 5, 8]}}
  %0 = kiln.attention_backward %d, %r, %r, %q, %k, %v : (tensor<4x5x16xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x16xf32>) -> query tensor<2x6x8xf32>
  return
}
// -----
func.func @d_key(%d: tensor<4x5x16xf32>, %r: tensor<4x5xf32>, %q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x6x16xf32>) {
  // expected-error @+1 {{d_key has shape [4, 6, 8], the key asks for [2, 6, 8]}}
  %0 = kiln.attention_backward %d, %r, %r, %q, %k, %v : (tensor<4x5x16xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x16xf32>) -> key tensor<4x6x8xf32>
  return
}
// -----
func.func @d_value(%d: tensor<4x5x16xf32>, %r: tensor<4x5xf32>, %q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x6x16xf32>) {
  // expected-error @+1 {{d_value has shape [2, 6, 8], the value asks for [2, 6, 16]}}
  %0 = kiln.attention_backward %d, %r, %r, %q, %k, %v : (tensor<4x5x16xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x16xf32>) -> value tensor<2x6x8xf32>
  return
}
// -----
func.func @d_bias(%d: tensor<4x5x16xf32>, %r: tensor<4x5xf32>, %q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x6x16xf32>, %b: tensor<1x5x6xf32>) {
  // expected-error @+1 {{d_bias has shape [4, 5, 6], the bias asks for [1, 5, 6]}}
  %0 = kiln.attention_backward %d, %r, %r, %q, %k, %v bias %b : (tensor<4x5x16xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x16xf32>, tensor<1x5x6xf32>) -> bias tensor<4x5x6xf32>
  return
}
// -----
func.func @misspelt(%d: tensor<4x5x16xf32>, %r: tensor<4x5xf32>, %q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x6x16xf32>) {
  // expected-error @+1 {{unknown attribute 'scal'; the operation has causal, p, scale, softcap, window_left, window_right; did you mean 'scale'?}}
  %0 = kiln.attention_backward %d, %r, %r, %q, %k, %v {scal = 2.0 : f32} : (tensor<4x5x16xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x16xf32>) -> query tensor<4x5x8xf32>
  return
}
