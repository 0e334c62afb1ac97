// kiln.cross_entropy: its text, what it refuses, its derived backward, its kernel.
// RUN: split-file %s %t
// RUN: kiln-opt %t/text.mlir | kiln-opt | FileCheck %t/text.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/backward.mlir --kiln-differentiate | FileCheck %t/backward.mlir
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir

//--- text.mlir
// CHECK-LABEL: func.func @f
func.func @f(%x: tensor<?x256xbf16>, %t: tensor<?xi64>, %v: tensor<5xf32>, %u: tensor<i32>) {
  // CHECK: %loss, %lse = kiln.cross_entropy %{{.*}}, %{{.*}} {ignore_index = -1 : i64, label_smoothing = 1.000000e-01 : f32, z_loss = 5.000000e-01 : f32} : (tensor<?x256xbf16>, tensor<?xi64>) -> (tensor<?xf32>, tensor<?xf32>)
  %0:2 = kiln.cross_entropy %x, %t {ignore_index = -1 : i64, label_smoothing = 0.1 : f32, z_loss = 0.5 : f32} : (tensor<?x256xbf16>, tensor<?xi64>) -> (tensor<?xf32>, tensor<?xf32>)
  // CHECK: kiln.cross_entropy %{{.*}}, %{{.*}} : (tensor<5xf32>, tensor<i32>) -> (tensor<f32>, tensor<f32>)
  %1:2 = kiln.cross_entropy %v, %u : (tensor<5xf32>, tensor<i32>) -> (tensor<f32>, tensor<f32>)
  return
}

//--- errors.mlir
func.func @rank(%x: tensor<f32>, %t: tensor<i32>) {
  // expected-error @+1 {{input has rank 0; it needs at least one dimension, the row}}
  %0:2 = kiln.cross_entropy %x, %t : (tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<f32>)
  return
}
// -----
func.func @target(%x: tensor<4x8xf32>, %t: tensor<8xi32>) {
  // expected-error @+1 {{target has shape [8], the input asks for [4]}}
  %0:2 = kiln.cross_entropy %x, %t : (tensor<4x8xf32>, tensor<8xi32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}
// -----
func.func @probabilities(%x: tensor<4x8xf32>, %t: tensor<4xf32>) {
  // expected-error @+1 {{operand #1 must be ranked tensor of 32-bit signless integer or 64-bit signless integer values, but got 'tensor<4xf32>'}}
  %0:2 = kiln.cross_entropy %x, %t : (tensor<4x8xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}
// -----
func.func @loss(%x: tensor<4x8xf32>, %t: tensor<4xi32>) {
  // expected-error @+1 {{loss has elements of type 'bf16', it is always f32}}
  %0:2 = kiln.cross_entropy %x, %t : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<4xbf16>, tensor<4xf32>)
  return
}
// -----
func.func @lse(%x: tensor<4x8xf32>, %t: tensor<4xi32>) {
  // expected-error @+1 {{lse has shape [4, 8], the input asks for [4]}}
  %0:2 = kiln.cross_entropy %x, %t : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4x8xf32>)
  return
}
// -----
func.func @smoothing(%x: tensor<4x8xf32>, %t: tensor<4xi32>) {
  // expected-error @+1 {{label_smoothing is 1.500000e+00; it must be from 0 to 1}}
  %0:2 = kiln.cross_entropy %x, %t {label_smoothing = 1.5 : f32} : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}
// -----
func.func @z(%x: tensor<4x8xf32>, %t: tensor<4xi32>) {
  // expected-error @+1 {{z_loss is -1.000000e+00; it must not be negative}}
  %0:2 = kiln.cross_entropy %x, %t {z_loss = -1.0 : f32} : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}
// -----
func.func @ignore(%x: tensor<4x8xf32>, %t: tensor<4xi32>) {
  // expected-error @+1 {{ignore_index is 4294967296, which targets of type i32 cannot hold}}
  %0:2 = kiln.cross_entropy %x, %t {ignore_index = 4294967296 : i64} : (tensor<4x8xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

//--- backward.mlir
// From logits, target, the largest logit and the sum of exponentials: nothing of the size of the
// logits is saved, and no large number that has lost its last digits.
// CHECK-LABEL: func.func @f_forward
// CHECK-SAME: -> (tensor<?xf32> {kiln.name = "loss"}, tensor<?xf32> {kiln.name = "lse"}, tensor<?xf32> {kiln.name = "largest"}, tensor<?xf32> {kiln.name = "sum"})
// CHECK-LABEL: func.func @f_backward
// CHECK-SAME: (%[[X:.*]]: tensor<?x8xbf16> {kiln.name = "x", kiln.older}, %[[T:.*]]: tensor<?xi64> {kiln.name = "t", kiln.older}, %[[MAX:.*]]: tensor<?xf32> {kiln.name = "largest"}, %[[SUM:.*]]: tensor<?xf32> {kiln.name = "sum"}, %[[D:.*]]: tensor<?xf32> {kiln.name = "dloss"}, %[[DLSE:.*]]: tensor<?xf32> {kiln.name = "dlse"}) -> (tensor<?x8xbf16> {kiln.name = "dx"})
// CHECK: %[[VALID:.*]] = arith.cmpi ult, %[[T]]
// CHECK: %[[IGNORED:.*]] = arith.cmpi eq, %[[T]]
// CHECK: arith.select %[[VALID]], %[[D]]
// CHECK: arith.cmpi eq, %index
// CHECK: %[[E:.*]] = math.exp {{.*}} fastmath<afn>
// CHECK: arith.mulf %[[E]]
// CHECK: %[[ROW:.*]] = kiln.broadcast %[[IGNORED]]
// CHECK: %[[CLASS:.*]] = arith.select %[[ROW]]
// CHECK: %[[LEVEL:.*]] = arith.mulf %[[E]]
// CHECK: arith.addf %[[CLASS]], %[[LEVEL]]
func.func @f(%x: tensor<?x8xbf16> {kiln.name = "x"}, %t: tensor<?xi64> {kiln.name = "t"})
    -> (tensor<?xf32> {kiln.name = "loss"}, tensor<?xf32> {kiln.name = "lse"}) {
  %loss, %lse = kiln.cross_entropy %x, %t : (tensor<?x8xbf16>, tensor<?xi64>) -> (tensor<?xf32>, tensor<?xf32>)
  return %loss, %lse : tensor<?xf32>, tensor<?xf32>
}

//--- kernel.mlir
// The target's logit is loaded; a target outside the row loads nothing.
// CHECK-LABEL: ce(const bf16* x, const i32* t, float* loss, float* lse, i64
// CHECK: pick_rows(at, picked_r, x, rows_100, t_r);
// CHECK: [[VALID:row_r[_0-9]*]][r] = u64(t_r[r]) < u64(100);
// CHECK: [[IGNORED:row_r[_0-9]*]][r] = t_r[r] == -100;
// CHECK: row_reduce<Max>
// CHECK: sum_r[r] += fast_exp(
// CHECK-NOT: at.column
// CHECK: row_reduce<Sum>(at, shared_memory() + {{[0-9]+}}, sum_r);
// CHECK: loss_r[r] = [[IGNORED]][r] ? 0.0f : ([[VALID]][r] ? {{.*}} : bits_to_float(0x7fc00000u));
// CHECK: store_rows(at, {{.*}}, RowStore{loss, rows_1, loss_r},
// CHECK-NEXT: RowStore{lse, rows_1, lse_r});
func.func @ce(%x: tensor<?x100xbf16> {kiln.name = "x"}, %t: tensor<?xi32> {kiln.name = "t"})
    -> (tensor<?xf32> {kiln.name = "loss"}, tensor<?xf32> {kiln.name = "lse"}) {
  %loss, %lse = kiln.cross_entropy %x, %t : (tensor<?x100xbf16>, tensor<?xi32>) -> (tensor<?xf32>, tensor<?xf32>)
  return %loss, %lse : tensor<?xf32>, tensor<?xf32>
}
