// kiln.partner: its text, what it refuses, folding, its derived backward, its kernels.
// RUN: split-file %s %t
// RUN: kiln-opt %t/text.mlir | kiln-opt | FileCheck %t/text.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/fold.mlir --kiln-canonicalize | FileCheck %t/fold.mlir
// RUN: kiln-opt %t/backward.mlir --kiln-differentiate | FileCheck %t/backward.mlir
// RUN: kiln-opt %t/refused.mlir -split-input-file --kiln-fuse -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable=function=halves -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable=function=norm -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir --check-prefix=NORM

//--- text.mlir
// CHECK-LABEL: func.func @f
func.func @f(%x: tensor<?x8xbf16>) {
  // CHECK: %partner = kiln.partner %{{.*}} pairs <half_split, 8> : tensor<?x8xbf16> -> tensor<?x8xbf16>
  %0 = kiln.partner %x pairs <half_split, 8> : tensor<?x8xbf16> -> tensor<?x8xbf16>
  // CHECK: kiln.partner %{{.*}} pairs <interleaved, 6> : tensor<?x8xbf16> -> tensor<?x8xbf16>
  %1 = kiln.partner %x pairs <interleaved, 6> : tensor<?x8xbf16> -> tensor<?x8xbf16>
  return
}

//--- errors.mlir
func.func @odd(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{width 3 of pairs of columns; an even number from 2 on is allowed}}
  %y = kiln.partner %x pairs <half_split, 3> : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}
// -----
func.func @none(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{width 0 of pairs of columns; an even number from 2 on is allowed}}
  %y = kiln.partner %x pairs <interleaved, 0> : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}
// -----
func.func @wide(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{pairs of 10 columns of a row of 8}}
  %y = kiln.partner %x pairs <interleaved, 10> : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}
// -----
func.func @rank(%x: tensor<f32>) {
  // expected-error @+1 {{input has rank 0; it needs at least one dimension, the row}}
  %y = kiln.partner %x pairs <interleaved, 2> : tensor<f32> -> tensor<f32>
  return
}
// -----
func.func @type(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{input has type 'tensor<4x8xf32>', the result 'tensor<4x8xbf16>'; they must agree}}
  %y = kiln.partner %x pairs <interleaved, 8> : tensor<4x8xf32> -> tensor<4x8xbf16>
  return
}

//--- fold.mlir
// The partner of the partner is the column itself.
// CHECK-LABEL: func.func @twice(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>)
// CHECK-NEXT: return %[[X]]
func.func @twice(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = kiln.partner %x pairs <half_split, 6> : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = kiln.partner %0 pairs <half_split, 6> : tensor<4x8xf32> -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
// CHECK-LABEL: func.func @two_ways(
// CHECK-COUNT-2: kiln.partner
func.func @two_ways(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = kiln.partner %x pairs <half_split, 8> : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = kiln.partner %0 pairs <half_split, 6> : tensor<4x8xf32> -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
// CHECK-LABEL: func.func @splat(
// CHECK-NEXT: %[[C:.*]] = arith.constant dense<1.0{{.*}}> : tensor<4x8xf32>
// CHECK-NEXT: return %[[C]]
func.func @splat() -> tensor<4x8xf32> {
  %c = arith.constant dense<1.0> : tensor<4x8xf32>
  %0 = kiln.partner %c pairs <half_split, 8> : tensor<4x8xf32> -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

//--- backward.mlir
// CHECK-LABEL: func.func @f_backward(
// CHECK: kiln.partner %{{.*}} pairs <interleaved, 8>
func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = kiln.partner %x pairs <interleaved, 8> : tensor<4x8xf32> -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

//--- refused.mlir
func.func @two_ways(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-note @+1 {{with this operation}}
  %0 = kiln.partner %x pairs <half_split, 8> : tensor<4x8xf32> -> tensor<4x8xf32>
  // expected-remark @+1 {{not fused: columns are paired in two ways, one after the other}}
  %1 = kiln.partner %0 pairs <interleaved, 8> : tensor<4x8xf32> -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
// -----
func.func @rows(%x: tensor<4x8xf32>, %s: tensor<4xf32>) -> tensor<4x8xf32> {
  // expected-note @+1 {{with this operation}}
  %p = kiln.partner %s pairs <half_split, 4> : tensor<4xf32> -> tensor<4xf32>
  %b = kiln.broadcast %p dims [0] : tensor<4xf32> -> tensor<4x8xf32>
  // expected-remark @+1 {{not fused: the columns that are paired are no columns of the space [4, 8]}}
  %y = arith.mulf %x, %b : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
// -----
func.func @index() -> tensor<4x8xi32> {
  %0 = kiln.index dim 1 -> tensor<4x8xi32>
  // expected-error @+1 {{'kiln.index' at the partners of columns}}
  %1 = kiln.partner %0 pairs <half_split, 8> : tensor<4x8xi32> -> tensor<4x8xi32>
  return %1 : tensor<4x8xi32>
}

//--- kernel.mlir
// The same memory is read twice: at the columns, and at their partners.
// CHECK-LABEL: halves(const bf16* x, bf16* y
// CHECK: const Paired<Halves<96>, bf16> x_pairs{x};
// CHECK-DAG: load<8>(at, [[P:x_tile[_0-9]*]], x_pairs, rows_128);
// CHECK-DAG: load<8>(at, [[X:x_tile[_0-9]*]], x, rows_128);
func.func @halves(%x: tensor<?x128xbf16> {kiln.name = "x"}) -> (tensor<?x128xbf16> {kiln.name = "y"}) {
  %0 = kiln.partner %x pairs <half_split, 96> : tensor<?x128xbf16> -> tensor<?x128xbf16>
  %y = arith.addf %x, %0 : tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
// The partner of a normalised row: the statistics are those of the row, gamma that of the partner.
// NORM-LABEL: norm(const float* x, const float* gamma, float* y, i64
// NORM-COUNT-1: row_reduce<Sum>
// NORM-NOT: row_reduce
// NORM: load_columns<4>(at, c, gamma_pairs);
func.func @norm(%x: tensor<?x128xf32> {kiln.name = "x"}, %g: tensor<128xf32> {kiln.name = "gamma"}) -> (tensor<?x128xf32> {kiln.name = "y"}) {
  %n, %r = kiln.rms_norm %x, %g : (tensor<?x128xf32>, tensor<128xf32>) -> (tensor<?x128xf32>, tensor<?xf32>)
  %y = kiln.partner %n pairs <half_split, 128> : tensor<?x128xf32> -> tensor<?x128xf32>
  return %y : tensor<?x128xf32>
}
