// kiln.log_softmax: its text, what it refuses, its derived backward, its kernel.
// RUN: split-file %s %t
// RUN: kiln-opt %t/text.mlir | kiln-opt | FileCheck %t/text.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/backward.mlir --kiln-differentiate | FileCheck %t/backward.mlir
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir

//--- text.mlir
// CHECK-LABEL: func.func @f
func.func @f(%x: tensor<?x256xbf16>, %v: tensor<5xf32>) {
  // CHECK: %y = kiln.log_softmax %{{.*}} : tensor<?x256xbf16> -> tensor<?x256xf32>
  %0 = kiln.log_softmax %x : tensor<?x256xbf16> -> tensor<?x256xf32>
  // CHECK: kiln.log_softmax %{{.*}} : tensor<5xf32> -> tensor<5xf32>
  %1 = kiln.log_softmax %v : tensor<5xf32> -> tensor<5xf32>
  return
}

//--- errors.mlir
func.func @rank(%x: tensor<f32>) {
  // expected-error @+1 {{input has rank 0; it needs at least one dimension, the row}}
  %y = kiln.log_softmax %x : tensor<f32> -> tensor<f32>
  return
}
// -----
func.func @dynamic(%x: tensor<4x?xf32>) {
  // expected-error @+1 {{the last dimension of the input is dynamic; it must be a constant}}
  %y = kiln.log_softmax %x : tensor<4x?xf32> -> tensor<4x?xf32>
  return
}
// -----
func.func @empty(%x: tensor<4x0xf32>) {
  // expected-error @+1 {{the last dimension of the input is 0; a row has at least 1 element}}
  %y = kiln.log_softmax %x : tensor<4x0xf32> -> tensor<4x0xf32>
  return
}
// -----
func.func @output(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{output has shape [4], the input asks for [4, 8]}}
  %y = kiln.log_softmax %x : tensor<4x8xf32> -> tensor<4xf32>
  return
}
// -----
func.func @integers(%x: tensor<4x8xi32>) {
  // expected-error @+1 {{operand #0 must be ranked tensor of 32-bit float or bfloat16 type or 16-bit float or 64-bit float values, but got 'tensor<4x8xi32>'}}
  %y = kiln.log_softmax %x : tensor<4x8xi32> -> tensor<4x8xf32>
  return
}

//--- backward.mlir
// Only the result is read again.
// CHECK-LABEL: func.func @f_backward
// CHECK-SAME: (%[[Y:.*]]: tensor<?x8xf32> {kiln.name = "y"}, %[[DY:.*]]: tensor<?x8xf32> {kiln.name = "dy"}) -> (tensor<?x8xf32> {kiln.name = "dx"})
// CHECK: %[[P:.*]] = math.exp %[[Y]]
// CHECK: %[[SUM:.*]] = kiln.reduce sum %[[DY]] dims [1]
// CHECK: %[[ROW:.*]] = kiln.broadcast %[[SUM]] dims [0]
// CHECK: %[[PART:.*]] = arith.mulf %[[P]], %[[ROW]]
// CHECK: %[[DX:.*]] = arith.subf %[[DY]], %[[PART]]
// CHECK: return %[[DX]]
func.func @f(%x: tensor<?x8xf32> {kiln.name = "x"}) -> (tensor<?x8xf32> {kiln.name = "y"}) {
  %y = kiln.log_softmax %x : tensor<?x8xf32> -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

//--- kernel.mlir
// One exponential an element and one logarithm a row.
// CHECK-LABEL: ls(const bf16* x, float* y, i64
// CHECK: row_reduce<Max>
// CHECK: expf(
// CHECK: row_reduce<Sum>
// CHECK-NOT: expf(
// CHECK: row_r[r] = logf(sum_r[r]);
// CHECK: y_c[i] = float(x_tile_c_1[i]) - max_r[r] - row_r[r];
func.func @ls(%x: tensor<?x256xbf16> {kiln.name = "x"}) -> (tensor<?x256xf32> {kiln.name = "y"}) {
  %y = kiln.log_softmax %x : tensor<?x256xbf16> -> tensor<?x256xf32>
  return %y : tensor<?x256xf32>
}
