// kiln.dropout: its text, what it refuses, its derived backward, its kernel.
// RUN: split-file %s %t
// RUN: kiln-opt %t/text.mlir | kiln-opt | FileCheck %t/text.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/backward.mlir --kiln-differentiate | FileCheck %t/backward.mlir
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable=function=d -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable=function=none -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir --check-prefix=NONE
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable=function=all -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir --check-prefix=ALL
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable=function=norm -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir --check-prefix=NORM

//--- text.mlir
// CHECK-LABEL: func.func @f
func.func @f(%x: tensor<?x4x8xbf16>, %seed: tensor<i64>, %offset: tensor<i64>) {
  // CHECK: %y = kiln.dropout %{{.*}}, %{{.*}}, %{{.*}} p 1.000000e-01 : tensor<?x4x8xbf16> -> tensor<?x4x8xbf16>
  %0 = kiln.dropout %x, %seed, %offset p 0.1 : tensor<?x4x8xbf16> -> tensor<?x4x8xbf16>
  // CHECK: kiln.dropout %{{.*}}, %{{.*}}, %{{.*}} p 2.500000e-01 shared [0, 2] : tensor<?x4x8xbf16> -> tensor<?x4x8xf32>
  %1 = kiln.dropout %x, %seed, %offset p 0.25 shared [0, 2] : tensor<?x4x8xbf16> -> tensor<?x4x8xf32>
  return
}

//--- errors.mlir
func.func @negative(%x: tensor<4x8xf32>, %s: tensor<i64>) {
  // expected-error @+1 {{p = -1.000000e-01 is no probability; give a number from 0 to 1}}
  %y = kiln.dropout %x, %s, %s p -0.1 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}
// -----
func.func @large(%x: tensor<4x8xf32>, %s: tensor<i64>) {
  // expected-error @+1 {{p = 1.500000e+00 is no probability; give a number from 0 to 1}}
  %y = kiln.dropout %x, %s, %s p 1.5 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}
// -----
func.func @nan(%x: tensor<4x8xf32>, %s: tensor<i64>) {
  // expected-error @+1 {{is no probability; give a number from 0 to 1}}
  %y = kiln.dropout %x, %s, %s p 0x7FC00000 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}
// -----
func.func @rank(%x: tensor<f32>, %s: tensor<i64>) {
  // expected-error @+1 {{input has rank 0; it needs at least one dimension, the row}}
  %y = kiln.dropout %x, %s, %s p 0.1 : tensor<f32> -> tensor<f32>
  return
}
// -----
func.func @shared(%x: tensor<4x8xf32>, %s: tensor<i64>) {
  // expected-error @+1 {{shared [2] of a tensor of rank 2: give increasing dimensions from 0 to 1}}
  %y = kiln.dropout %x, %s, %s p 0.1 shared [2] : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}
// -----
func.func @from_the_end(%x: tensor<4x8xf32>, %s: tensor<i64>) {
  // expected-error @+1 {{shared [-1] of a tensor of rank 2: give increasing dimensions from 0 to 1}}
  %y = kiln.dropout %x, %s, %s p 0.1 shared [-1] : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}
// -----
func.func @output(%x: tensor<4x8xf32>, %s: tensor<i64>) {
  // expected-error @+1 {{output has shape [4, 4], the input asks for [4, 8]}}
  %y = kiln.dropout %x, %s, %s p 0.1 : tensor<4x8xf32> -> tensor<4x4xf32>
  return
}

//--- backward.mlir
// The backward takes seed and offset instead of a mask, and does not take x.
// CHECK-LABEL: func.func @f(
// CHECK-NOT: @f_forward
// CHECK: func.func @f_backward(%[[S:.*]]: tensor<i64> {kiln.name = "seed", kiln.older}, %[[O:.*]]: tensor<i64> {kiln.name = "offset", kiln.older}, %[[DY:.*]]: tensor<?x4x8xbf16> {kiln.name = "dy"}) -> (tensor<?x4x8xbf16> {kiln.name = "dx"})
// CHECK: %[[D:.*]] = arith.extf %[[DY]]
// CHECK: %[[U:.*]] = kiln.random %[[S]], %[[O]] bits 16 like %[[D]] : tensor<?x4x8xf32> -> tensor<1x4x8xi32>
// CHECK: %[[B:.*]] = kiln.broadcast %[[U]] dims [0, 1, 2]
// CHECK: %[[K:.*]] = arith.cmpi sge, %[[B]]
// CHECK: %[[M:.*]] = arith.mulf %[[D]]
// CHECK: %[[DX:.*]] = arith.select %[[K]], %[[M]]
func.func @f(%x: tensor<?x4x8xbf16> {kiln.name = "x"}, %seed: tensor<i64> {kiln.name = "seed"}, %offset: tensor<i64> {kiln.name = "offset"}) -> (tensor<?x4x8xbf16> {kiln.name = "y"}) {
  %y = kiln.dropout %x, %seed, %offset p 0.1 shared [0] : tensor<?x4x8xbf16> -> tensor<?x4x8xbf16>
  return %y : tensor<?x4x8xbf16>
}

//--- kernel.mlir
// CHECK-LABEL: d(const bf16* x, const i64* seed, const i64* offset, bf16* y, i64
// CHECK: const auto u_tile = random_tile<i32, 16>(at, rows_128, seed_0, offset_0);
// CHECK: const auto u_tile_c = u_tile.get(r, c);
// CHECK: y_c[i] = u_tile_c[i] >= -1717960704 ? float(x_tile_c[i]) * 1.11111116f : 0.0f;
func.func @d(%x: tensor<?x128xbf16> {kiln.name = "x"}, %seed: tensor<i64> {kiln.name = "seed"}, %offset: tensor<i64> {kiln.name = "offset"}) -> (tensor<?x128xbf16> {kiln.name = "y"}) {
  %y = kiln.dropout %x, %seed, %offset p 0.1 : tensor<?x128xbf16> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
// What is certain takes no numbers.
// NONE-LABEL: none(const float* x, bf16* y, i64
// NONE-NOT: random
func.func @none(%x: tensor<?x128xf32> {kiln.name = "x"}, %seed: tensor<i64>, %offset: tensor<i64>) -> (tensor<?x128xbf16> {kiln.name = "y"}) {
  %y = kiln.dropout %x, %seed, %offset p 0.0 : tensor<?x128xf32> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
// ALL-LABEL: all(float* y, i64
// ALL: y_c[i] = 0.0f;
func.func @all(%x: tensor<?x128xf32> {kiln.name = "x"}, %seed: tensor<i64>, %offset: tensor<i64>) -> (tensor<?x128xf32> {kiln.name = "y"}) {
  %y = kiln.dropout %x, %seed, %offset p 1.0 : tensor<?x128xf32> -> tensor<?x128xf32>
  return %y : tensor<?x128xf32>
}
// Under a LayerNorm the sum is kept for its later passes: the numbers are computed once.
// NORM-LABEL: norm(
// NORM-COUNT-1: u_tile.get(r, c)
// NORM-NOT: u_tile.get
func.func @norm(%x: tensor<?x128xbf16>, %r: tensor<?x128xbf16>, %seed: tensor<i64>, %offset: tensor<i64>) -> (tensor<?x128xbf16>) {
  %d = kiln.dropout %x, %seed, %offset p 0.1 : tensor<?x128xbf16> -> tensor<?x128xbf16>
  %z = arith.addf %d, %r : tensor<?x128xbf16>
  %y, %m, %s = kiln.layer_norm %z : (tensor<?x128xbf16>) -> (tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>)
  return %y : tensor<?x128xbf16>
}
