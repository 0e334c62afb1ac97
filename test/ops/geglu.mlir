// kiln.geglu: its text, what it refuses, its derived backward, its kernel.
// RUN: split-file %s %t
// RUN: kiln-opt %t/text.mlir | kiln-opt | FileCheck %t/text.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/backward.mlir --kiln-differentiate | FileCheck %t/backward.mlir
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir

//--- text.mlir
// CHECK-LABEL: func.func @f
func.func @f(%g: tensor<?x256xbf16>, %x: tensor<?x256xf32>, %v: tensor<7xf16>) {
  // CHECK: %y = kiln.geglu %{{.*}}, %{{.*}} : tensor<?x256xbf16>, tensor<?x256xf32> -> tensor<?x256xbf16>
  %0 = kiln.geglu %g, %x : tensor<?x256xbf16>, tensor<?x256xf32> -> tensor<?x256xbf16>
  // CHECK: kiln.geglu %{{.*}}, %{{.*}} : tensor<7xf16>, tensor<7xf16> -> tensor<7xf32>
  %1 = kiln.geglu %v, %v : tensor<7xf16>, tensor<7xf16> -> tensor<7xf32>
  // CHECK: kiln.geglu %{{.*}}, %{{.*}} approximate tanh : tensor<7xf16>, tensor<7xf16> -> tensor<7xf32>
  %2 = kiln.geglu %v, %v approximate tanh : tensor<7xf16>, tensor<7xf16> -> tensor<7xf32>
  return
}

//--- errors.mlir
func.func @rank(%x: tensor<f32>) {
  // expected-error @+1 {{input has rank 0; it needs at least one dimension, the row}}
  %y = kiln.geglu %x, %x : tensor<f32>, tensor<f32> -> tensor<f32>
  return
}
// -----
func.func @gate(%g: tensor<8xf32>, %x: tensor<4x8xf32>) {
  // expected-error @+1 {{gate has shape [8], the input asks for [4, 8]}}
  %y = kiln.geglu %g, %x : tensor<8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  return
}
// -----
func.func @output(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{output has shape [8], the input asks for [4, 8]}}
  %y = kiln.geglu %x, %x : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8xf32>
  return
}
// -----
func.func @integers(%g: tensor<4x8xi32>, %x: tensor<4x8xf32>) {
  // expected-error @+1 {{operand #0 must be ranked tensor of 32-bit float or bfloat16 type or 16-bit float or 64-bit float values, but got 'tensor<4x8xi32>'}}
  %y = kiln.geglu %g, %x : tensor<4x8xi32>, tensor<4x8xf32> -> tensor<4x8xf32>
  return
}
// -----
func.func @formula(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{to be one of: none, tanh}}
  // expected-error @+1 {{failed to parse Kiln_ApproximateAttr parameter 'value'}}
  %y = kiln.geglu %x, %x approximate sigmoid : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

//--- backward.mlir
// Both gradients from the two inputs, which share the gate's transcendental.
// CHECK-LABEL: func.func @f_backward
// CHECK-SAME: (%[[G:.*]]: tensor<?x8xf32> {kiln.name = "g", kiln.older}, %[[X:.*]]: tensor<?x8xf32> {kiln.name = "x", kiln.older}, %[[DY:.*]]: tensor<?x8xf32> {kiln.name = "dy"}) -> (tensor<?x8xf32> {kiln.name = "dg"}, tensor<?x8xf32> {kiln.name = "dx"})
// CHECK: %[[CUBIC:.*]] = math.tanh
// CHECK-NOT: math.tanh
// CHECK: %[[GELU:.*]] = arith.mulf %[[G]]
// CHECK: %[[DX:.*]] = arith.mulf %[[DY]], %[[GELU]]
// CHECK: %[[DGELU:.*]] = arith.mulf %[[DY]], %[[X]]
// CHECK-NOT: math.tanh
// CHECK: %[[DG:.*]] = arith.mulf %[[DGELU]]
// CHECK: return %[[DG]], %[[DX]]
func.func @f(%g: tensor<?x8xf32> {kiln.name = "g"}, %x: tensor<?x8xf32> {kiln.name = "x"}) -> (tensor<?x8xf32> {kiln.name = "y"}) {
  %y = kiln.geglu %g, %x approximate tanh : tensor<?x8xf32>, tensor<?x8xf32> -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

//--- kernel.mlir
// The product is rounded once.
// CHECK-LABEL: gated(const bf16* g, const bf16* x, bf16* y, i64
// CHECK: y_c[i] = t * ((erff(t * 0.707106769f) + 1.0f) * 0.5f) * float(x_tile_c[i]);
func.func @gated(%g: tensor<?x256xbf16> {kiln.name = "g"}, %x: tensor<?x256xbf16> {kiln.name = "x"}) -> (tensor<?x256xbf16> {kiln.name = "y"}) {
  %y = kiln.geglu %g, %x : tensor<?x256xbf16>, tensor<?x256xbf16> -> tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}
