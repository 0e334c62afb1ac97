// kiln.silu: its text, what it refuses, its derived backward, its kernel.
// RUN: split-file %s %t
// RUN: kiln-opt %t/text.mlir | kiln-opt | FileCheck %t/text.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/backward.mlir --kiln-differentiate | FileCheck %t/backward.mlir
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir

//--- text.mlir
// CHECK-LABEL: func.func @f
func.func @f(%x: tensor<?x256xbf16>, %s: tensor<?xf32>, %v: tensor<7xf16>) {
  // CHECK: %y = kiln.silu %{{.*}} : tensor<?x256xbf16> -> tensor<?x256xbf16>
  %0 = kiln.silu %x : tensor<?x256xbf16> -> tensor<?x256xbf16>
  // CHECK: kiln.silu %{{.*}} : tensor<?xf32> -> tensor<?xbf16>
  %1 = kiln.silu %s : tensor<?xf32> -> tensor<?xbf16>
  // CHECK: kiln.silu %{{.*}} : tensor<7xf16> -> tensor<7xf32>
  %2 = kiln.silu %v : tensor<7xf16> -> tensor<7xf32>
  return
}

//--- errors.mlir
func.func @rank(%x: tensor<f32>) {
  // expected-error @+1 {{input has rank 0; it needs at least one dimension, the row}}
  %y = kiln.silu %x : tensor<f32> -> tensor<f32>
  return
}
// -----
func.func @output(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{output has shape [8], the input asks for [4, 8]}}
  %y = kiln.silu %x : tensor<4x8xf32> -> tensor<8xf32>
  return
}
// -----
func.func @integers(%x: tensor<4x8xi32>) {
  // expected-error @+1 {{operand #0 must be ranked tensor of 32-bit float or bfloat16 type or 16-bit float or 64-bit float values, but got 'tensor<4x8xi32>'}}
  %y = kiln.silu %x : tensor<4x8xi32> -> tensor<4x8xf32>
  return
}

//--- backward.mlir
// s (1 + x (1 - s)) with s computed again from x.
// CHECK-LABEL: func.func @f_backward
// CHECK-SAME: (%[[X:.*]]: tensor<?x8xf32> {kiln.name = "x", kiln.older}, %[[DY:.*]]: tensor<?x8xf32> {kiln.name = "dy"}) -> (tensor<?x8xf32> {kiln.name = "dx"})
// CHECK: %[[E:.*]] = math.exp
// CHECK: %[[S:.*]] = arith.divf
// CHECK: %[[REST:.*]] = arith.select
// CHECK: %[[BEND:.*]] = arith.mulf %[[X]], %[[REST]]
// CHECK: %[[ONE:.*]] = arith.addf %[[BEND]]
// CHECK: %[[SLOPE:.*]] = arith.mulf %[[S]], %[[ONE]]
// CHECK: %[[DX:.*]] = arith.mulf %[[DY]], %[[SLOPE]]
// CHECK: return %[[DX]]
func.func @f(%x: tensor<?x8xf32> {kiln.name = "x"}) -> (tensor<?x8xf32> {kiln.name = "y"}) {
  %y = kiln.silu %x : tensor<?x8xf32> -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

//--- kernel.mlir
// One division, of x, in fp32 between load and store.
// CHECK-LABEL: act(const bf16* x, bf16* y, i64
// CHECK: y_c[i] = t / (expf(-t) + 1.0f);
func.func @act(%x: tensor<?x256xbf16> {kiln.name = "x"}) -> (tensor<?x256xbf16> {kiln.name = "y"}) {
  %y = kiln.silu %x : tensor<?x256xbf16> -> tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}
