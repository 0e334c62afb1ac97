// Dropout among its neighbours: how many kernels a chain becomes, forward and backward.
// RUN: split-file %s %t
// RUN: kiln-opt %t/forward.mlir -split-input-file --kiln-fuse | FileCheck %t/forward.mlir
// RUN: kiln-opt %t/backward.mlir -split-input-file --kiln-differentiate --kiln-fuse | FileCheck %t/backward.mlir
// RUN: kiln-opt %t/launches.mlir --kiln-differentiate --kiln-emittable=function=all_backward -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/launches.mlir
// RUN: kiln-opt %t/sums.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/sums.mlir

//--- forward.mlir
// Bias, dropout and residual are one kernel.
// CHECK-LABEL: func.func @residual(
// CHECK-NEXT: %[[K:.*]] = kiln.kernel "residual"(%{{.*}}) : {{.*}} -> tensor<?x128xbf16>
// CHECK-NOT: kiln.kernel
// CHECK: return %[[K]]
func.func @residual(%x: tensor<?x128xbf16>, %b: tensor<128xf32>, %r: tensor<?x128xbf16>, %seed: tensor<i64>, %offset: tensor<i64>) -> tensor<?x128xbf16> {
  %xf = arith.extf %x : tensor<?x128xbf16> to tensor<?x128xf32>
  %rf = arith.extf %r : tensor<?x128xbf16> to tensor<?x128xf32>
  %bb = kiln.broadcast %b dims [1] like %xf : tensor<128xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
  %t = arith.addf %xf, %bb : tensor<?x128xf32>
  %d = kiln.dropout %t, %seed, %offset p 0.1 : tensor<?x128xf32> -> tensor<?x128xf32>
  %z = arith.addf %d, %rf : tensor<?x128xf32>
  %o = arith.truncf %z : tensor<?x128xf32> to tensor<?x128xbf16>
  return %o : tensor<?x128xbf16>
}
// -----
// With the LayerNorm that follows, and the sum as a result beside it: still one.
// CHECK-LABEL: func.func @norm(
// CHECK-NEXT: %[[K:.*]]:4 = kiln.kernel "norm"(
// CHECK-NOT: kiln.kernel
// CHECK: return %[[K]]#0, %[[K]]#1, %[[K]]#2, %[[K]]#3
func.func @norm(%x: tensor<?x128xbf16>, %b: tensor<128xf32>, %r: tensor<?x128xbf16>, %g: tensor<128xf32>, %h: tensor<128xf32>, %seed: tensor<i64>, %offset: tensor<i64>)
    -> (tensor<?x128xbf16>, tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>) {
  %xf = arith.extf %x : tensor<?x128xbf16> to tensor<?x128xf32>
  %rf = arith.extf %r : tensor<?x128xbf16> to tensor<?x128xf32>
  %bb = kiln.broadcast %b dims [1] like %xf : tensor<128xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
  %t = arith.addf %xf, %bb : tensor<?x128xf32>
  %d = kiln.dropout %t, %seed, %offset p 0.1 : tensor<?x128xf32> -> tensor<?x128xf32>
  %z = arith.addf %d, %rf : tensor<?x128xf32>
  %o = arith.truncf %z : tensor<?x128xf32> to tensor<?x128xbf16>
  %y, %m, %s = kiln.layer_norm %o, %g, %h : (tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32>) -> (tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>)
  return %o, %y, %m, %s : tensor<?x128xbf16>, tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>
}
// -----
// AlphaFold's row-wise dropout: a mask over columns and channels, shared by all rows.
// CHECK-LABEL: func.func @row_wise(
// CHECK-NEXT: %[[K:.*]] = kiln.kernel "row_wise"(
// CHECK-NOT: kiln.kernel
// CHECK: return %[[K]]
func.func @row_wise(%x: tensor<?x?x128xbf16>, %r: tensor<?x?x128xbf16>, %seed: tensor<i64>, %offset: tensor<i64>) -> tensor<?x?x128xbf16> {
  %d = kiln.dropout %x, %seed, %offset p 0.15 shared [0] : tensor<?x?x128xbf16> -> tensor<?x?x128xbf16>
  %z = arith.addf %d, %r : tensor<?x?x128xbf16>
  return %z : tensor<?x?x128xbf16>
}
// -----
// Its column-wise dropout.
// CHECK-LABEL: func.func @column_wise(
// CHECK-NEXT: %[[K:.*]] = kiln.kernel "column_wise"(
// CHECK-NOT: kiln.kernel
// CHECK: return %[[K]]
func.func @column_wise(%x: tensor<?x?x128xbf16>, %r: tensor<?x?x128xbf16>, %seed: tensor<i64>, %offset: tensor<i64>) -> tensor<?x?x128xbf16> {
  %d = kiln.dropout %x, %seed, %offset p 0.25 shared [1] : tensor<?x?x128xbf16> -> tensor<?x?x128xbf16>
  %z = arith.addf %d, %r : tensor<?x?x128xbf16>
  return %z : tensor<?x?x128xbf16>
}
// -----
// Two masks of one seed: the second offset is computed in the kernel.
// CHECK-LABEL: func.func @twice(
// CHECK-NEXT: %[[K:.*]] = kiln.kernel "twice"(
// CHECK: arith.addi
// CHECK-NOT: kiln.kernel
// CHECK: return %[[K]]
func.func @twice(%x: tensor<?x128xf32>, %seed: tensor<i64>, %offset: tensor<i64>) -> tensor<?x128xf32> {
  %one = arith.constant dense<1> : tensor<i64>
  %next = arith.addi %offset, %one : tensor<i64>
  %a = kiln.dropout %x, %seed, %offset p 0.1 : tensor<?x128xf32> -> tensor<?x128xf32>
  %t = math.tanh %a : tensor<?x128xf32>
  %y = kiln.dropout %t, %seed, %next p 0.1 : tensor<?x128xf32> -> tensor<?x128xf32>
  return %y : tensor<?x128xf32>
}
// -----
// Numbers of lower rank, repeated over the rows by hand.
// CHECK-LABEL: func.func @by_hand(
// CHECK-NEXT: %[[K:.*]] = kiln.kernel "by_hand"(
// CHECK-NOT: kiln.kernel
// CHECK: return %[[K]]
func.func @by_hand(%x: tensor<?x64x128xf32>, %seed: tensor<i64>, %offset: tensor<i64>) -> tensor<?x64x128xf32> {
  %u = kiln.random %seed, %offset -> tensor<64x128xf32>
  %b = kiln.broadcast %u dims [1, 2] like %x : tensor<64x128xf32>, tensor<?x64x128xf32> -> tensor<?x64x128xf32>
  %y = arith.mulf %x, %b : tensor<?x64x128xf32>
  return %y : tensor<?x64x128xf32>
}

//--- backward.mlir
// All gradients, those of the parameters too, are one kernel. It reads the sum, the statistics and
// the incoming gradients; neither x, nor the residual, nor a mask.
// CHECK-LABEL: func.func @norm_backward(
// CHECK-SAME: %{{[^:]*}}: tensor<128xf32> {kiln.name = "g", kiln.older}, %{{[^:]*}}: tensor<i64> {kiln.name = "seed", kiln.older}, %{{[^:]*}}: tensor<i64> {kiln.name = "offset", kiln.older}, %{{[^:]*}}: tensor<?x128xbf16> {kiln.name = "o"}, %{{[^:]*}}: tensor<?xf32> {kiln.name = "m"}, %{{[^:]*}}: tensor<?xf32> {kiln.name = "s"}, %{{[^:]*}}: tensor<?x128xbf16> {kiln.name = "do"}, %{{[^:]*}}: tensor<?x128xbf16> {kiln.name = "dy"})
// CHECK-NEXT: %{{.*}}:5 = kiln.kernel "norm_backward"(
// CHECK-NOT: kiln.kernel
// CHECK: return
func.func @norm(%x: tensor<?x128xbf16> {kiln.name = "x"}, %b: tensor<128xf32> {kiln.name = "b"}, %r: tensor<?x128xbf16> {kiln.name = "r"}, %g: tensor<128xf32> {kiln.name = "g"}, %h: tensor<128xf32> {kiln.name = "h"}, %seed: tensor<i64> {kiln.name = "seed"}, %offset: tensor<i64> {kiln.name = "offset"})
    -> (tensor<?x128xbf16> {kiln.name = "o"}, tensor<?x128xbf16> {kiln.name = "y"}, tensor<?xf32> {kiln.name = "m", kiln.gradient = false}, tensor<?xf32> {kiln.name = "s", kiln.gradient = false}) {
  %xf = arith.extf %x : tensor<?x128xbf16> to tensor<?x128xf32>
  %rf = arith.extf %r : tensor<?x128xbf16> to tensor<?x128xf32>
  %bb = kiln.broadcast %b dims [1] like %xf : tensor<128xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
  %t = arith.addf %xf, %bb : tensor<?x128xf32>
  %d = kiln.dropout %t, %seed, %offset p 0.1 : tensor<?x128xf32> -> tensor<?x128xf32>
  %z = arith.addf %d, %rf : tensor<?x128xf32>
  %o = arith.truncf %z : tensor<?x128xf32> to tensor<?x128xbf16>
  %y, %m, %s = kiln.layer_norm %o, %g, %h : (tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32>) -> (tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>)
  return %o, %y, %m, %s : tensor<?x128xbf16>, tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>
}
// -----
// CHECK-LABEL: func.func @row_wise_backward(
// CHECK-NEXT: %{{.*}} = kiln.kernel "row_wise_backward"(
// CHECK-NOT: kiln.kernel
// CHECK: return
func.func @row_wise(%x: tensor<?x?x128xbf16>, %seed: tensor<i64>, %offset: tensor<i64>) -> tensor<?x?x128xbf16> {
  %d = kiln.dropout %x, %seed, %offset p 0.15 shared [0] : tensor<?x?x128xbf16> -> tensor<?x?x128xbf16>
  return %d : tensor<?x?x128xbf16>
}

//--- launches.mlir
// Two launches: the kernel, and the one that finishes its column sums.
// CHECK: KILN_KERNEL
// CHECK-NEXT: all_backward(
// CHECK: KILN_KERNEL
// CHECK-NEXT: all_backward_columns(
// CHECK-NOT: KILN_KERNEL
func.func @all(%x: tensor<?x128xbf16>, %b: tensor<128xf32>, %g: tensor<128xf32>, %h: tensor<128xf32>, %seed: tensor<i64>, %offset: tensor<i64>)
    -> (tensor<?x128xf32>, tensor<?x128xbf16>, tensor<?xf32> {kiln.gradient = false}, tensor<?xf32> {kiln.gradient = false}) {
  %xf = arith.extf %x : tensor<?x128xbf16> to tensor<?x128xf32>
  %bb = kiln.broadcast %b dims [1] like %xf : tensor<128xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
  %t = arith.addf %xf, %bb : tensor<?x128xf32>
  %z = kiln.dropout %t, %seed, %offset p 0.1 : tensor<?x128xf32> -> tensor<?x128xf32>
  %y, %m, %s = kiln.layer_norm %z, %g, %h : (tensor<?x128xf32>, tensor<128xf32>, tensor<128xf32>) -> (tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>)
  return %z, %y, %m, %s : tensor<?x128xf32>, tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>
}

//--- sums.mlir
// What is added to a dropout is added where it scales, without a rounding between; a dropout that
// something else reads too is computed for itself.
// CHECK: out0_c[i] = {{.*}} ? fmaf(in0_tile_c[i], 1.11111116f, in1_tile_c[i]) :
// CHECK-NEXT: in1_tile_c[i];
// CHECK: const float y = {{.*}} ? in0_tile_c[i] * 2.0f : 0.0f;
// CHECK: out2_c[i] = y + in1_tile_c[i];
func.func @sums(%x: tensor<?x128xf32>, %r: tensor<?x128xf32>, %seed: tensor<i64>, %offset: tensor<i64>)
    -> (tensor<?x128xf32>, tensor<?x128xf32>, tensor<?x128xf32>) {
  %a = kiln.dropout %x, %seed, %offset p 0.1 : tensor<?x128xf32> -> tensor<?x128xf32>
  %z = arith.addf %r, %a : tensor<?x128xf32>
  %b = kiln.dropout %x, %seed, %offset p 0.5 : tensor<?x128xf32> -> tensor<?x128xf32>
  %w = arith.addf %b, %r : tensor<?x128xf32>
  return %z, %b, %w : tensor<?x128xf32>, tensor<?x128xf32>, tensor<?x128xf32>
}
