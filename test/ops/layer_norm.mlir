// kiln.layer_norm: its text, what it refuses, its derived backward, its kernel.
// RUN: split-file %s %t
// RUN: kiln-opt %t/text.mlir | kiln-opt | FileCheck %t/text.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/backward.mlir --kiln-differentiate | FileCheck %t/backward.mlir
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir

//--- text.mlir
// CHECK-LABEL: func.func @with_both
func.func @with_both(%x: tensor<?x128xbf16>, %g: tensor<128xf32>, %b: tensor<128xf32>) -> tensor<?x128xbf16> {
  // CHECK: %y, %mean, %rstd = kiln.layer_norm %{{.*}}, %{{.*}}, %{{.*}} {eps = 9.99999997E-7 : f32} : (tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32>) -> (tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>)
  %y, %mean, %rstd = kiln.layer_norm %x, %g, %b {eps = 1.0e-06 : f32} : (tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32>) -> (tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>)
  return %y : tensor<?x128xbf16>
}
// The default eps is not printed; one row alone has statistics of rank 0.
// CHECK-LABEL: func.func @plain
func.func @plain(%x: tensor<7xf32>) -> tensor<f32> {
  // CHECK: kiln.layer_norm %{{.*}} : (tensor<7xf32>) -> (tensor<7xf32>, tensor<f32>, tensor<f32>)
  %y, %mean, %rstd = kiln.layer_norm %x : (tensor<7xf32>) -> (tensor<7xf32>, tensor<f32>, tensor<f32>)
  return %mean : tensor<f32>
}

//--- errors.mlir
func.func @rank(%x: tensor<f32>) {
  // expected-error @+1 {{input has rank 0; it needs at least one dimension, the row}}
  %y, %m, %r = kiln.layer_norm %x : (tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
  return
}
// -----
func.func @dynamic(%x: tensor<4x?xf32>) {
  // expected-error @+1 {{the last dimension of the input is dynamic; it must be a constant (kernels are specialised for the row width)}}
  %y, %m, %r = kiln.layer_norm %x : (tensor<4x?xf32>) -> (tensor<4x?xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}
// -----
func.func @empty(%x: tensor<4x0xf32>) {
  // expected-error @+1 {{the last dimension of the input is 0; a row has at least 1 element}}
  %y, %m, %r = kiln.layer_norm %x : (tensor<4x0xf32>) -> (tensor<4x0xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}
// -----
func.func @beta_alone(%x: tensor<4x8xf32>, %b: tensor<8xf32>) {
  // expected-error @+1 {{has beta without gamma; give both, or gamma alone}}
  %y, %m, %r = "kiln.layer_norm"(%x, %b) <{operandSegmentSizes = array<i32: 1, 0, 1>}> : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}
// -----
func.func @eps(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{eps is -1.000000e+00; it must not be negative}}
  %y, %m, %r = kiln.layer_norm %x {eps = -1.0 : f32} : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}
// -----
func.func @eps_nan(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{it must not be negative}}
  %y, %m, %r = kiln.layer_norm %x {eps = 0x7FC00000 : f32} : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}
// -----
func.func @gamma(%x: tensor<?x128xf32>, %g: tensor<64xf32>) {
  // expected-error @+1 {{gamma has shape [64], the row asks for [128]}}
  %y, %m, %r = kiln.layer_norm %x, %g : (tensor<?x128xf32>, tensor<64xf32>) -> (tensor<?x128xf32>, tensor<?xf32>, tensor<?xf32>)
  return
}
// -----
func.func @beta(%x: tensor<?x8xf32>, %g: tensor<8xf32>, %b: tensor<1x8xf32>) {
  // expected-error @+1 {{beta has shape [1, 8], the row asks for [8]}}
  %y, %m, %r = kiln.layer_norm %x, %g, %b : (tensor<?x8xf32>, tensor<8xf32>, tensor<1x8xf32>) -> (tensor<?x8xf32>, tensor<?xf32>, tensor<?xf32>)
  return
}
// -----
func.func @output(%x: tensor<?x8xf32>) {
  // expected-error @+1 {{output has shape [4, 8], the input asks for [?, 8]}}
  %y, %m, %r = kiln.layer_norm %x : (tensor<?x8xf32>) -> (tensor<4x8xf32>, tensor<?xf32>, tensor<?xf32>)
  return
}
// -----
func.func @mean_type(%x: tensor<?x8xbf16>) {
  // expected-error @+1 {{mean has elements of type 'bf16', it is always f32}}
  %y, %m, %r = kiln.layer_norm %x : (tensor<?x8xbf16>) -> (tensor<?x8xbf16>, tensor<?xbf16>, tensor<?xf32>)
  return
}
// -----
func.func @rstd_shape(%x: tensor<2x4x8xf32>) {
  // expected-error @+1 {{rstd has shape [2], the input asks for [2, 4]}}
  %y, %m, %r = kiln.layer_norm %x : (tensor<2x4x8xf32>) -> (tensor<2x4x8xf32>, tensor<2x4xf32>, tensor<2xf32>)
  return
}
// -----
func.func @integers(%x: tensor<2x8xi32>) {
  // expected-error @+1 {{operand #0 must be ranked tensor of 32-bit float or bfloat16 type or 16-bit float or 64-bit float values, but got 'tensor<2x8xi32>'}}
  %y, %m, %r = kiln.layer_norm %x : (tensor<2x8xi32>) -> (tensor<2x8xf32>, tensor<2xf32>, tensor<2xf32>)
  return
}

//--- backward.mlir
// The gradient of a statistic reaches x too.
// CHECK-LABEL: func.func @f_backward
// CHECK-SAME: kiln.name = "dm"
// CHECK-SAME: kiln.name = "dr"
// CHECK-SAME: -> (tensor<?x8xf32> {kiln.name = "dx"})
func.func @f(%x: tensor<?x8xf32> {kiln.name = "x"}) -> (tensor<?xf32> {kiln.name = "m"}, tensor<?xf32> {kiln.name = "r"}) {
  %y, %m, %r = kiln.layer_norm %x : (tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?xf32>, tensor<?xf32>)
  return %m, %r : tensor<?xf32>, tensor<?xf32>
}

//--- kernel.mlir
// Mean first, then the sums of the differences from it and of their squares, of which the first
// corrects both where the row lies far from zero; mean and rstd are stored once a row.
// CHECK-LABEL: ln(const float* x, const float* gamma, const float* beta, float* y, float* mean, float* rstd
// CHECK: load<{{[0-9]}}>(at, x_tile, x, [[MAP:rows[0-9_]*]]);
// CHECK: mean_r[r] += x_tile_c[i];
// CHECK: row_reduce<Sum>(at, shared_memory() + {{[0-9]+}}, mean_r);
// CHECK: mean_r[r] = mean_r[r] / 128.0f;
// CHECK: += t * t;
// CHECK: row_reduce<Sum>(at, {{.*}}, [[SQUARES:mean_r_.]], [[REST:mean_r_.]]);
// CHECK: const float [[OFF:t_?[0-9]*]] = {{.*}} <= [[SQUARES]][r] * 16.0f ? 0.0f : [[REST]][r];
// CHECK: inverse_sqrt(maximum([[SQUARES]][r] - [[OFF]] * [[OFF]], 0.0f) +
// CHECK: [[MEAN:mean_r_.]][r] = mean_r[r] + [[OFF]];
// CHECK: {{load|staged}}_columns{{.*}}(at, c, gamma
// CHECK: {{load|staged}}_columns{{.*}}(at, c, beta
// CHECK: store<{{[0-9]}}>(at, r, c, y, [[MAP]], y_c);
// CHECK: store_rows(at, shared_memory() + {{[0-9]+}}, RowStore{mean, [[ROWS:rows[0-9_]*]], [[MEAN]]},
// CHECK-NEXT: RowStore{rstd, [[ROWS]], rstd_r});
func.func @ln(%x: tensor<?x128xf32> {kiln.name = "x"}, %g: tensor<128xf32> {kiln.name = "gamma"}, %b: tensor<128xf32> {kiln.name = "beta"})
    -> (tensor<?x128xf32> {kiln.name = "y"}, tensor<?xf32> {kiln.name = "mean"}, tensor<?xf32> {kiln.name = "rstd"}) {
  %y, %m, %r = kiln.layer_norm %x, %g, %b : (tensor<?x128xf32>, tensor<128xf32>, tensor<128xf32>) -> (tensor<?x128xf32>, tensor<?xf32>, tensor<?xf32>)
  return %y, %m, %r : tensor<?x128xf32>, tensor<?xf32>, tensor<?xf32>
}
