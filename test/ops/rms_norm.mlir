// kiln.rms_norm: its text, what it refuses, its derived backward, its kernel.
// RUN: split-file %s %t
// RUN: kiln-opt %t/text.mlir | kiln-opt | FileCheck %t/text.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/backward.mlir --kiln-differentiate | FileCheck %t/backward.mlir
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir

//--- text.mlir
// CHECK-LABEL: func.func @with_gamma
func.func @with_gamma(%x: tensor<?x1280xbf16>, %g: tensor<1280xbf16>) -> tensor<?xf32> {
  // CHECK: %y, %rstd = kiln.rms_norm %{{.*}}, %{{.*}} {eps = 9.99999997E-7 : f32} : (tensor<?x1280xbf16>, tensor<1280xbf16>) -> (tensor<?x1280xbf16>, tensor<?xf32>)
  %y, %rstd = kiln.rms_norm %x, %g {eps = 1.0e-06 : f32} : (tensor<?x1280xbf16>, tensor<1280xbf16>) -> (tensor<?x1280xbf16>, tensor<?xf32>)
  return %rstd : tensor<?xf32>
}
// CHECK-LABEL: func.func @plain
func.func @plain(%x: tensor<3x8xf16>) -> tensor<3x8xf16> {
  // CHECK: kiln.rms_norm %{{.*}} : (tensor<3x8xf16>) -> (tensor<3x8xf16>, tensor<3xf32>)
  %y, %rstd = kiln.rms_norm %x : (tensor<3x8xf16>) -> (tensor<3x8xf16>, tensor<3xf32>)
  return %y : tensor<3x8xf16>
}

//--- errors.mlir
func.func @rank(%x: tensor<f32>) {
  // expected-error @+1 {{input has rank 0; it needs at least one dimension, the row}}
  %y, %r = kiln.rms_norm %x : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return
}
// -----
func.func @eps(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{eps is -5.000000e-01; it must not be negative}}
  %y, %r = kiln.rms_norm %x {eps = -0.5 : f32} : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
  return
}
// -----
func.func @gamma(%x: tensor<4x8xf32>, %g: tensor<4xf32>) {
  // expected-error @+1 {{gamma has shape [4], the row asks for [8]}}
  %y, %r = kiln.rms_norm %x, %g : (tensor<4x8xf32>, tensor<4xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
  return
}
// -----
func.func @output(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{output has shape [8, 4], the input asks for [4, 8]}}
  %y, %r = kiln.rms_norm %x : (tensor<4x8xf32>) -> (tensor<8x4xf32>, tensor<4xf32>)
  return
}
// -----
func.func @rstd(%x: tensor<4x8xf16>) {
  // expected-error @+1 {{rstd has elements of type 'f16', it is always f32}}
  %y, %r = kiln.rms_norm %x : (tensor<4x8xf16>) -> (tensor<4x8xf16>, tensor<4xf16>)
  return
}

//--- backward.mlir
// x, gamma and rstd are all that is read besides dy.
// CHECK-LABEL: func.func @f_backward
// CHECK-SAME: kiln.name = "x"
// CHECK-SAME: kiln.name = "gamma"
// CHECK-SAME: kiln.name = "rstd"
// CHECK-SAME: kiln.name = "dy"
// CHECK-SAME: -> (tensor<?x8xf32> {kiln.name = "dx"}, tensor<8xf32> {kiln.name = "dgamma"})
// CHECK: kiln.reduce mean
// CHECK: kiln.reduce sum {{.*}} dims [0]
func.func @f(%x: tensor<?x8xf32> {kiln.name = "x"}, %g: tensor<8xf32> {kiln.name = "gamma"})
    -> (tensor<?x8xf32> {kiln.name = "y"}, tensor<?xf32> {kiln.name = "rstd", kiln.gradient = false}) {
  %y, %r = kiln.rms_norm %x, %g : (tensor<?x8xf32>, tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?xf32>)
  return %y, %r : tensor<?x8xf32>, tensor<?xf32>
}

//--- kernel.mlir
// One exchange; gamma is read in bf16 and widened where it is used.
// CHECK-LABEL: rms(const bf16* x, const bf16* gamma, bf16* y, i64
// CHECK: float(x_tile_c[i])
// CHECK-COUNT-1: row_reduce<Sum>
// CHECK-NOT: row_reduce
// CHECK: inverse_sqrt(
// CHECK: float(gamma{{(_s)?}}_c[i])
// CHECK: store<{{[0-9]}}>(at, r, c, y,
func.func @rms(%x: tensor<?x1280xbf16> {kiln.name = "x"}, %g: tensor<1280xbf16> {kiln.name = "gamma"}) -> (tensor<?x1280xbf16> {kiln.name = "y"}) {
  %y, %r = kiln.rms_norm %x, %g : (tensor<?x1280xbf16>, tensor<1280xbf16>) -> (tensor<?x1280xbf16>, tensor<?xf32>)
  return %y : tensor<?x1280xbf16>
}
