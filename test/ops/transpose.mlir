// kiln.transpose: its text, what it refuses, folding, its derived backward, its kernels.
// RUN: split-file %s %t
// RUN: kiln-opt %t/text.mlir | kiln-opt | FileCheck %t/text.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/fold.mlir --kiln-canonicalize | FileCheck %t/fold.mlir
// RUN: kiln-opt %t/backward.mlir --kiln-differentiate | FileCheck %t/backward.mlir
// RUN: kiln-opt %t/refused.mlir -split-input-file --kiln-fuse -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable=function=stored -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable=function=loaded -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir --check-prefix=LOADED
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable=function=channels -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir --check-prefix=CHANNELS

//--- text.mlir
// CHECK-LABEL: func.func @f
func.func @f(%x: tensor<?x4x8xbf16>, %s: tensor<i32>) {
  // CHECK: %transposed = kiln.transpose %{{.*}} [1, 0, 2] : tensor<?x4x8xbf16> -> tensor<4x?x8xbf16>
  %0 = kiln.transpose %x [1, 0, 2] : tensor<?x4x8xbf16> -> tensor<4x?x8xbf16>
  // CHECK: kiln.transpose %{{.*}} [] : tensor<i32> -> tensor<i32>
  %1 = kiln.transpose %s [] : tensor<i32> -> tensor<i32>
  return
}

//--- errors.mlir
func.func @twice(%x: tensor<2x4x8xf32>) {
  // expected-error @+1 {{permutation [1, 1, 2] of a tensor of rank 3: name each dimension from 0 to 2 once}}
  %y = kiln.transpose %x [1, 1, 2] : tensor<2x4x8xf32> -> tensor<4x4x8xf32>
  return
}
// -----
func.func @few(%x: tensor<2x4x8xf32>) {
  // expected-error @+1 {{permutation [1, 0] of a tensor of rank 3: name each dimension from 0 to 2 once}}
  %y = kiln.transpose %x [1, 0] : tensor<2x4x8xf32> -> tensor<4x2xf32>
  return
}
// -----
func.func @type(%x: tensor<2x4x8xf32>) {
  // expected-error @+1 {{input has elements of type 'f32', the result 'bf16'; a transpose does not convert (use arith.extf or arith.truncf)}}
  %y = kiln.transpose %x [1, 0, 2] : tensor<2x4x8xf32> -> tensor<4x2x8xbf16>
  return
}
// -----
func.func @shape(%x: tensor<2x4x8xf32>) {
  // expected-error @+1 {{output has shape [2, 4, 8], the transposed input asks for [4, 2, 8]}}
  %y = kiln.transpose %x [1, 0, 2] : tensor<2x4x8xf32> -> tensor<2x4x8xf32>
  return
}

//--- fold.mlir
// CHECK-LABEL: func.func @identity(
// CHECK-SAME: %[[X:.*]]: tensor<2x4x8xf32>)
// CHECK-NEXT: return %[[X]]
func.func @identity(%x: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
  %0 = kiln.transpose %x [0, 1, 2] : tensor<2x4x8xf32> -> tensor<2x4x8xf32>
  return %0 : tensor<2x4x8xf32>
}
// There and back is nothing.
// CHECK-LABEL: func.func @back(
// CHECK-SAME: %[[X:.*]]: tensor<2x4x8xf32>)
// CHECK-NEXT: return %[[X]]
func.func @back(%x: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
  %0 = kiln.transpose %x [1, 2, 0] : tensor<2x4x8xf32> -> tensor<4x8x2xf32>
  %1 = kiln.transpose %0 [2, 0, 1] : tensor<4x8x2xf32> -> tensor<2x4x8xf32>
  return %1 : tensor<2x4x8xf32>
}
// Two are one: dimension k of the result is dimension p[q[k]].
// CHECK-LABEL: func.func @two(
// CHECK-NEXT: %[[Y:.*]] = kiln.transpose %{{.*}} [2, 1, 0] : tensor<2x4x8xf32> -> tensor<8x4x2xf32>
// CHECK-NEXT: return %[[Y]]
func.func @two(%x: tensor<2x4x8xf32>) -> tensor<8x4x2xf32> {
  %0 = kiln.transpose %x [1, 2, 0] : tensor<2x4x8xf32> -> tensor<4x8x2xf32>
  %1 = kiln.transpose %0 [1, 0, 2] : tensor<4x8x2xf32> -> tensor<8x4x2xf32>
  return %1 : tensor<8x4x2xf32>
}
// CHECK-LABEL: func.func @splat(
// CHECK-NEXT: %[[C:.*]] = arith.constant dense<1.0{{.*}}> : tensor<4x2xf32>
// CHECK-NEXT: return %[[C]]
func.func @splat() -> tensor<4x2xf32> {
  %c = arith.constant dense<1.0> : tensor<2x4xf32>
  %0 = kiln.transpose %c [1, 0] : tensor<2x4xf32> -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}

//--- backward.mlir
// CHECK-LABEL: func.func @f_backward(
// CHECK: kiln.transpose %{{.*}} [1, 2, 0, 3] : tensor<2x3x4x8xf32> -> tensor<3x4x2x8xf32>
func.func @f(%x: tensor<3x4x2x8xf32>) -> tensor<2x3x4x8xf32> {
  %0 = kiln.transpose %x [2, 0, 1, 3] : tensor<3x4x2x8xf32> -> tensor<2x3x4x8xf32>
  return %0 : tensor<2x3x4x8xf32>
}

//--- refused.mlir
// The two sizes need not agree, but in one kernel they would have to.
func.func @two_orders(%x: tensor<?x?x8xf32>) -> (tensor<?x?x8xf32>, tensor<?x?x8xf32>) {
  %t = kiln.transpose %x [1, 0, 2] : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  // expected-note @+1 {{with this operation}}
  %e = math.exp %t : tensor<?x?x8xf32>
  // expected-remark @+1 {{not fused: a tensor with run-time sizes is walked in two orders}}
  %f = math.exp %x : tensor<?x?x8xf32>
  return %e, %f : tensor<?x?x8xf32>, tensor<?x?x8xf32>
}

//--- kernel.mlir
// Only the output's rows lie elsewhere; vectors are whole.
// CHECK-LABEL: stored(const bf16* x, bf16* y, i64 row_count
// CHECK: const RowMap<2> [[X:rows_.*]]{{[{][{]}}0, 12}, {768, 64}};
// CHECK: const RowMap<2> [[Y:rows_.*]]{{[{][{]}}0, 12}, {64, step_d0_64}};
// CHECK: load<8>(at, x_tile, x, [[X]]);
// CHECK: store<8>(at, r, c, y, [[Y]], y_c);
func.func @stored(%x: tensor<?x12x64xbf16> {kiln.name = "x"}) -> (tensor<12x?x64xbf16> {kiln.name = "y"}) {
  %f = arith.extf %x : tensor<?x12x64xbf16> to tensor<?x12x64xf32>
  %e = math.exp %f : tensor<?x12x64xf32>
  %h = arith.truncf %e : tensor<?x12x64xf32> to tensor<?x12x64xbf16>
  %y = kiln.transpose %h [1, 0, 2] : tensor<?x12x64xbf16> -> tensor<12x?x64xbf16>
  return %y : tensor<12x?x64xbf16>
}
// CHANNELS-LABEL: channels(const bf16* x, bf16* y, i64 row_count
// CHANNELS: const RowMap<1> [[Y:rows_.*]]{{[{][{]}}0}, {1}, [[STEP:step_.*]]};
// CHANNELS: Transposed<Tile, bf16> y_transposed(at, shared_memory() + 0);
// CHANNELS: y_transposed.set(r, c, y_transposed_c);
// CHANNELS: block_barrier();
// CHANNELS-NEXT: store_transposed(at, y_transposed, y, [[Y]]);
func.func @channels(%x: tensor<?x12x64xbf16> {kiln.name = "x"}) -> (tensor<64x?x12xbf16> {kiln.name = "y"}) {
  %f = arith.extf %x : tensor<?x12x64xbf16> to tensor<?x12x64xf32>
  %e = math.exp %f : tensor<?x12x64xf32>
  %h = arith.truncf %e : tensor<?x12x64xf32> to tensor<?x12x64xbf16>
  %y = kiln.transpose %h [2, 0, 1] : tensor<?x12x64xbf16> -> tensor<64x?x12xbf16>
  return %y : tensor<64x?x12xbf16>
}
// A transposed input is loaded from elsewhere.
// LOADED-LABEL: loaded(const bf16* x, const bf16* z, bf16* y
// LOADED-DAG: load<8>(at, x_tile, x, rows_64_768);
// LOADED-DAG: load<8>(at, z_tile, z, rows_z_64);
// LOADED: store<8>(at, r, c, y, rows_z_64, y_c);
func.func @loaded(%x: tensor<?x12x64xbf16> {kiln.name = "x"}, %z: tensor<12x?x64xbf16> {kiln.name = "z"}) -> (tensor<12x?x64xbf16> {kiln.name = "y"}) {
  %t = kiln.transpose %x [1, 0, 2] : tensor<?x12x64xbf16> -> tensor<12x?x64xbf16>
  %y = arith.addf %t, %z : tensor<12x?x64xbf16>
  return %y : tensor<12x?x64xbf16>
}
