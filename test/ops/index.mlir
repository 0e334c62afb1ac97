// kiln.index: its text, what it refuses, its kernels.
// RUN: split-file %s %t
// RUN: kiln-opt %t/text.mlir | kiln-opt | FileCheck %t/text.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/backward.mlir --kiln-differentiate | FileCheck %t/backward.mlir
// RUN: kiln-opt %t/fused.mlir --kiln-fuse | FileCheck %t/fused.mlir
// RUN: kiln-opt %t/refused.mlir --kiln-fuse -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir

//--- text.mlir
// CHECK-LABEL: func.func @f
func.func @f(%x: tensor<?x128xbf16>) {
  // CHECK: %index = kiln.index dim 1 like %{{.*}} : tensor<?x128xbf16> -> tensor<?x128xi32>
  %0 = kiln.index dim 1 like %x : tensor<?x128xbf16> -> tensor<?x128xi32>
  // CHECK: kiln.index dim 0 -> tensor<4x8xi64>
  %1 = kiln.index dim 0 -> tensor<4x8xi64>
  return
}

//--- errors.mlir
func.func @rank() {
  // expected-error @+1 {{the result has rank 0; an index runs along a dimension}}
  %0 = kiln.index dim 0 -> tensor<i32>
  return
}
// -----
func.func @outside() {
  // expected-error @+1 {{dim 2 of a tensor of rank 2: give one from 0 to 1}}
  %0 = kiln.index dim 2 -> tensor<4x8xi32>
  return
}
// -----
func.func @negative() {
  // expected-error @+1 {{dim -1 of a tensor of rank 2: give one from 0 to 1}}
  %0 = kiln.index dim -1 -> tensor<4x8xi32>
  return
}
// -----
func.func @no_like() {
  // expected-error @+1 {{the result has dynamic sizes; name a tensor of that shape with 'like'}}
  %0 = kiln.index dim 1 -> tensor<?x8xi32>
  return
}
// -----
func.func @like(%x: tensor<?x9xf32>) {
  // expected-error @+1 {{like has shape [?, 9], the result asks for [?, 8]}}
  %0 = kiln.index dim 1 like %x : tensor<?x9xf32> -> tensor<?x8xi32>
  return
}
// -----
func.func @type() {
  // expected-error @+1 {{result #0 must be ranked tensor of 32-bit signless integer or 64-bit signless integer values, but got 'tensor<4x8xf32>'}}
  %0 = kiln.index dim 1 -> tensor<4x8xf32>
  return
}

//--- backward.mlir
// An index has no gradient; the weights that are made of it are constants. It is not saved.
// CHECK-LABEL: func.func @f_backward(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32> {kiln.name = "x", kiln.older}, %[[DY:.*]]: tensor<4x8xf32> {kiln.name = "dy"})
// CHECK: kiln.index dim 1 -> tensor<4x8xi32>
// CHECK: return
func.func @f(%x: tensor<4x8xf32> {kiln.name = "x"}) -> (tensor<4x8xf32> {kiln.name = "y"}) {
  %i = kiln.index dim 1 -> tensor<4x8xi32>
  %w = arith.sitofp %i : tensor<4x8xi32> to tensor<4x8xf32>
  %s = arith.mulf %x, %x : tensor<4x8xf32>
  %y = arith.mulf %s, %w : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

//--- fused.mlir
// An index is made where it is used: nothing passes between the two kernels but x and y.
// CHECK-LABEL: func.func @f
// CHECK: kiln.kernel "mine"(%{{[a-z0-9]*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK: kiln.index
// CHECK: kiln.kernel "f_0"(%{{[a-z0-9]*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK: kiln.index
func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %i = kiln.index dim 1 -> tensor<4x8xi32>
  %0 = kiln.kernel "mine"(%x, %i) : (tensor<4x8xf32>, tensor<4x8xi32>) -> tensor<4x8xf32> {
  ^bb0(%a: tensor<4x8xf32>, %b: tensor<4x8xi32>):
    %c = arith.sitofp %b : tensor<4x8xi32> to tensor<4x8xf32>
    %d = arith.mulf %a, %c : tensor<4x8xf32>
    kiln.yield %d : tensor<4x8xf32>
  }
  %w = arith.sitofp %i : tensor<4x8xi32> to tensor<4x8xf32>
  %y = arith.mulf %0, %w : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

//--- refused.mlir
func.func @leading(%x: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
  %i = kiln.index dim 1 -> tensor<2x4x8xi32>
  // expected-error @+1 {{the index along dimension 1 of the space [2, 4, 8]; kernels know the column, and the row if there is one leading dimension}}
  %w = arith.sitofp %i : tensor<2x4x8xi32> to tensor<2x4x8xf32>
  return %w : tensor<2x4x8xf32>
}

//--- kernel.mlir
// A causal mask: what is to the right of the diagonal is closed.
// CHECK-LABEL: causal(const float* x, float* y, i64
// CHECK: i32 row_r[Tile::rows];
// CHECK: const i32 [[ROW:row[_0-9]*]] = at.row(r);
// CHECK-NEXT: row_r[r] = [[ROW]];
// CHECK: const i32 [[COLUMN:column[_0-9]*]] = at.column(c) + i;
// CHECK: y_c[i] = [[COLUMN]] <= row_r[r] ? x_tile_c[i] : bits_to_float(0xff800000u);
func.func @causal(%x: tensor<?x64xf32> {kiln.name = "x"}) -> (tensor<?x64xf32> {kiln.name = "y"}) {
  %row = kiln.index dim 0 like %x : tensor<?x64xf32> -> tensor<?x64xi32>
  %column = kiln.index dim 1 like %x : tensor<?x64xf32> -> tensor<?x64xi32>
  %open = arith.cmpi sle, %column, %row : tensor<?x64xi32>
  %closed = arith.constant dense<0xFF800000> : tensor<f32>
  %minus = kiln.broadcast %closed dims [] like %x : tensor<f32>, tensor<?x64xf32> -> tensor<?x64xf32>
  %y = arith.select %open, %x, %minus : tensor<?x64xi1>, tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
