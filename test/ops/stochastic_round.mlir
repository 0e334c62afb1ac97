// kiln.stochastic_round: its text, what it refuses, its derived backward, its kernel.
// RUN: split-file %s %t
// RUN: kiln-opt %t/text.mlir | kiln-opt | FileCheck %t/text.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/kernel.mlir --kiln-differentiate | FileCheck %t/kernel.mlir --check-prefix=BACKWARD
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir

//--- text.mlir
// CHECK-LABEL: func.func @f
func.func @f(%x: tensor<?x8xf32>, %seed: tensor<i64>, %offset: tensor<i64>) {
  // CHECK: %y = kiln.stochastic_round %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x8xf32> -> tensor<?x8xbf16>
  %0 = kiln.stochastic_round %x, %seed, %offset : tensor<?x8xf32> -> tensor<?x8xbf16>
  return
}

//--- errors.mlir
func.func @rank(%x: tensor<f32>, %s: tensor<i64>) {
  // expected-error @+1 {{input has rank 0; it needs at least one dimension, the row}}
  %y = kiln.stochastic_round %x, %s, %s : tensor<f32> -> tensor<bf16>
  return
}
// -----
func.func @input(%x: tensor<8xf16>, %s: tensor<i64>) {
  // expected-error @+1 {{operand #0 must be ranked tensor of 32-bit float values, but got 'tensor<8xf16>'}}
  %y = kiln.stochastic_round %x, %s, %s : tensor<8xf16> -> tensor<8xbf16>
  return
}
// -----
func.func @result(%x: tensor<8xf32>, %s: tensor<i64>) {
  // expected-error @+1 {{result #0 must be ranked tensor of bfloat16 type values, but got 'tensor<8xf16>'}}
  %y = kiln.stochastic_round %x, %s, %s : tensor<8xf32> -> tensor<8xf16>
  return
}
// -----
func.func @output(%x: tensor<4x8xf32>, %s: tensor<i64>) {
  // expected-error @+1 {{output has shape [8], the input asks for [4, 8]}}
  %y = kiln.stochastic_round %x, %s, %s : tensor<4x8xf32> -> tensor<8xbf16>
  return
}

//--- kernel.mlir
// The gradient is that of the result.
// BACKWARD-LABEL: func.func @r_backward(
// BACKWARD-SAME: %[[DY:.*]]: tensor<?x128xbf16> {kiln.name = "dy"})
// BACKWARD-NEXT: %[[DX:.*]] = arith.extf %[[DY]]
// BACKWARD-NEXT: return %[[DX]]
// CHECK-LABEL: kiln_r(const float* x, const i64* seed, const i64* offset, bf16* y, i64
// CHECK: const auto u_tile = random_tile<i32, 32>(at, rows_128, seed_0, offset_0);
// CHECK: bits_to_float(0x7f800000u) > fabsf(x_tile_c[i])
// CHECK: (u_tile_c[i] & 65535) & -65536) : x_tile_c[i];
func.func @r(%x: tensor<?x128xf32> {kiln.name = "x"}, %seed: tensor<i64> {kiln.name = "seed"}, %offset: tensor<i64> {kiln.name = "offset"}) -> (tensor<?x128xbf16> {kiln.name = "y"}) {
  %y = kiln.stochastic_round %x, %seed, %offset : tensor<?x128xf32> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
