// kiln.softmax: its text, what it refuses, its derived backward, its kernel.
// RUN: split-file %s %t
// RUN: kiln-opt %t/text.mlir | kiln-opt | FileCheck %t/text.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/backward.mlir --kiln-differentiate | FileCheck %t/backward.mlir
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir

//--- text.mlir
// CHECK-LABEL: func.func @all
func.func @all(%x: tensor<?x256xbf16>, %b: tensor<?x256xf32>, %m: tensor<?x256xi1>) -> tensor<?x256xbf16> {
  // CHECK: %p = kiln.softmax %{{.*}} bias %{{.*}} mask %{{.*}} {scale = 1.250000e-01 : f32} : tensor<?x256xbf16>, tensor<?x256xf32>, tensor<?x256xi1> -> tensor<?x256xbf16>
  %p = kiln.softmax %x bias %b mask %m {scale = 0.125 : f32} : tensor<?x256xbf16>, tensor<?x256xf32>, tensor<?x256xi1> -> tensor<?x256xbf16>
  return %p : tensor<?x256xbf16>
}
// CHECK-LABEL: func.func @plain
func.func @plain(%x: tensor<5xf32>) -> tensor<5xf32> {
  // CHECK: kiln.softmax %{{.*}} : tensor<5xf32> -> tensor<5xf32>
  %p = kiln.softmax %x : tensor<5xf32> -> tensor<5xf32>
  return %p : tensor<5xf32>
}
// CHECK-LABEL: func.func @masked
func.func @masked(%x: tensor<2x4xf32>, %m: tensor<2x4xi1>) -> tensor<2x4xf32> {
  // CHECK: kiln.softmax %{{.*}} mask %{{.*}} : tensor<2x4xf32>, tensor<2x4xi1> -> tensor<2x4xf32>
  %p = kiln.softmax %x mask %m : tensor<2x4xf32>, tensor<2x4xi1> -> tensor<2x4xf32>
  return %p : tensor<2x4xf32>
}

//--- errors.mlir
func.func @rank(%x: tensor<f32>) {
  // expected-error @+1 {{input has rank 0; it needs at least one dimension, the row}}
  %p = kiln.softmax %x : tensor<f32> -> tensor<f32>
  return
}
// -----
func.func @bias(%x: tensor<4x8xf32>, %b: tensor<8xf32>) {
  // expected-error @+1 {{bias has shape [8], the input asks for [4, 8]}}
  %p = kiln.softmax %x bias %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  return
}
// -----
func.func @mask(%x: tensor<4x8xf32>, %m: tensor<4x4xi1>) {
  // expected-error @+1 {{mask has shape [4, 4], the input asks for [4, 8]}}
  %p = kiln.softmax %x mask %m : tensor<4x8xf32>, tensor<4x4xi1> -> tensor<4x8xf32>
  return
}
// -----
func.func @mask_type(%x: tensor<4x8xf32>, %m: tensor<4x8xf32>) {
  // expected-error @+1 {{operand #1 must be ranked tensor of 1-bit signless integer values, but got 'tensor<4x8xf32>'}}
  %p = kiln.softmax %x mask %m : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  return
}
// -----
func.func @output(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{output has shape [4], the input asks for [4, 8]}}
  %p = kiln.softmax %x : tensor<4x8xf32> -> tensor<4xf32>
  return
}

//--- backward.mlir
// Only the result is read again; the bias gets the gradient without the scale.
// CHECK-LABEL: func.func @f_backward
// CHECK-SAME: (%[[P:.*]]: tensor<?x8xf32> {kiln.name = "p"}, %[[DP:.*]]: tensor<?x8xf32> {kiln.name = "dp"}) -> (tensor<?x8xf32> {kiln.name = "dx"}, tensor<?x8xf32> {kiln.name = "db"})
// CHECK: %[[W:.*]] = arith.mulf %[[P]], %[[DP]]
// CHECK: %[[SUM:.*]] = kiln.reduce sum %[[W]] dims [1]
// CHECK: %[[INNER:.*]] = arith.subf %[[DP]]
// CHECK: %[[DS:.*]] = arith.mulf %[[P]], %[[INNER]]
// CHECK: %[[DX:.*]] = arith.mulf %[[DS]]
// CHECK: return %[[DX]], %[[DS]]
func.func @f(%x: tensor<?x8xf32> {kiln.name = "x"}, %b: tensor<?x8xf32> {kiln.name = "b"}) -> (tensor<?x8xf32> {kiln.name = "p"}) {
  %p = kiln.softmax %x bias %b {scale = 0.5 : f32} : tensor<?x8xf32>, tensor<?x8xf32> -> tensor<?x8xf32>
  return %p : tensor<?x8xf32>
}

//--- kernel.mlir
// The exponentials are computed in the pass that adds them up and again in the last; the
// quotient is a product with a reciprocal a row, since it is rounded to bf16. A closed row is zero.
// CHECK-LABEL: sm(const bf16* x, const u8* m, bf16* p, i64
// CHECK: Max::identity()
// CHECK: m_tile_c[i] ? float(x_tile_c[i]) * 0.125f : bits_to_float(0xff800000u));
// CHECK: row_reduce<Max>
// CHECK: == bits_to_float(0xff800000u) ? 0.0f :
// CHECK: fast_exp(
// CHECK: row_reduce<Sum>
// CHECK: [[SCALE:row_r_.]][r] = 1.0f / ({{.*}} == 0.0f ? 1.0f : {{.*}}) * row_r_
// CHECK: p_c[i] = fast_exp(
// CHECK-NEXT: * [[SCALE]][r];
// CHECK: store<{{[0-9]+}}>(at, r, c, p,
func.func @sm(%x: tensor<?x256xbf16> {kiln.name = "x"}, %m: tensor<?x256xi1> {kiln.name = "m"}) -> (tensor<?x256xbf16> {kiln.name = "p"}) {
  %p = kiln.softmax %x mask %m {scale = 0.125 : f32} : tensor<?x256xbf16>, tensor<?x256xi1> -> tensor<?x256xbf16>
  return %p : tensor<?x256xbf16>
}
