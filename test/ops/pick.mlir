// kiln.pick: its text, what it refuses, its gradient, its kernels.
// RUN: split-file %s %t
// RUN: kiln-opt %t/text.mlir | kiln-opt | FileCheck %t/text.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/backward.mlir --kiln-differentiate | FileCheck %t/backward.mlir
// RUN: kiln-opt %t/loaded.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/loaded.mlir
// RUN: kiln-opt %t/computed.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/computed.mlir

//--- text.mlir
// CHECK-LABEL: func.func @f
func.func @f(%x: tensor<?x128xbf16>, %t: tensor<?xi64>) {
  // CHECK: %picked = kiln.pick %{{.*}}, %{{.*}} : tensor<?x128xbf16>, tensor<?xi64> -> tensor<?xbf16>
  %0 = kiln.pick %x, %t : tensor<?x128xbf16>, tensor<?xi64> -> tensor<?xbf16>
  return
}

//--- errors.mlir
func.func @rows(%x: tensor<4x8xf32>, %t: tensor<5xi64>) {
  // expected-error @+1 {{index has shape [5], the input asks for [4]}}
  %0 = kiln.pick %x, %t : tensor<4x8xf32>, tensor<5xi64> -> tensor<4xf32>
  return
}
// -----
func.func @result(%x: tensor<4x8xf32>, %t: tensor<4xi64>) {
  // expected-error @+1 {{the result has shape [4, 8], the input asks for [4]}}
  %0 = kiln.pick %x, %t : tensor<4x8xf32>, tensor<4xi64> -> tensor<4x8xf32>
  return
}
// -----
func.func @element(%x: tensor<4x8xf32>, %t: tensor<4xi64>) {
  // expected-error @+1 {{the result has elements of 'bf16', the input of 'f32'}}
  %0 = kiln.pick %x, %t : tensor<4x8xf32>, tensor<4xi64> -> tensor<4xbf16>
  return
}
// -----
func.func @scalar(%x: tensor<f32>, %t: tensor<i64>) {
  // expected-error @+1 {{input has rank 0; it needs at least one dimension, the row}}
  %0 = kiln.pick %x, %t : tensor<f32>, tensor<i64> -> tensor<f32>
  return
}

//--- backward.mlir
// Zero but at the index; nothing of x is read.
// CHECK-LABEL: func.func @f_backward(
// CHECK-SAME: %[[T:.*]]: tensor<4xi64> {kiln.name = "t", kiln.older}, %[[DY:.*]]: tensor<4xf32> {kiln.name = "dy"})
// CHECK: %[[I:.*]] = kiln.index dim 1
// CHECK: arith.cmpi eq, %[[I]]
// CHECK: arith.select
func.func @f(%x: tensor<4x8xf32> {kiln.name = "x"}, %t: tensor<4xi64> {kiln.name = "t"}) -> (tensor<4xf32> {kiln.name = "y"}) {
  %y = kiln.pick %x, %t : tensor<4x8xf32>, tensor<4xi64> -> tensor<4xf32>
  return %y : tensor<4xf32>
}

//--- loaded.mlir
// What is read is picked by a load.
// CHECK-LABEL: f(const float* x, const i64* t, float* y, i64
// CHECK: float y_r[Tile::rows];
// CHECK-NEXT: pick_rows(at, y_r, x, rows_8, t_r);
func.func @f(%x: tensor<?x8xf32> {kiln.name = "x"}, %t: tensor<?xi64> {kiln.name = "t"}) -> (tensor<?xf32> {kiln.name = "y"}) {
  %y = kiln.pick %x, %t : tensor<?x8xf32>, tensor<?xi64> -> tensor<?xf32>
  return %y : tensor<?xf32>
}

//--- computed.mlir
// What the kernel computes is compared column by column.
// CHECK-LABEL: f(const float* x, const i64* t, float* y, i64
// CHECK-NOT: pick_rows
// CHECK: at.column(c) + i;
func.func @f(%x: tensor<?x8xf32> {kiln.name = "x"}, %t: tensor<?xi64> {kiln.name = "t"}) -> (tensor<?xf32> {kiln.name = "y"}) {
  %q = arith.mulf %x, %x : tensor<?x8xf32>
  %y = kiln.pick %q, %t : tensor<?x8xf32>, tensor<?xi64> -> tensor<?xf32>
  return %y : tensor<?xf32>
}
