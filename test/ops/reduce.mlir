// kiln.reduce: its text, what it refuses, what it folds, its derived backward, its kernels.
// RUN: split-file %s %t
// RUN: kiln-opt %t/text.mlir | kiln-opt | FileCheck %t/text.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/fold.mlir --kiln-canonicalize | FileCheck %t/fold.mlir
// RUN: kiln-opt %t/backward.mlir -split-input-file --kiln-differentiate | FileCheck %t/backward.mlir
// RUN: kiln-opt %t/unknown.mlir --kiln-differentiate -verify-diagnostics
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir
// RUN: kiln-opt %t/rows.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/rows.mlir

//--- text.mlir
// CHECK-LABEL: func.func @kinds
func.func @kinds(%x: tensor<?x4x128xbf16>) {
  // CHECK: %sum = kiln.reduce sum %{{.*}} dims [0, 1] : tensor<?x4x128xbf16> -> tensor<128xf32>
  %0 = kiln.reduce sum %x dims [0, 1] : tensor<?x4x128xbf16> -> tensor<128xf32>
  // CHECK: %mean = kiln.reduce mean %{{.*}} dims [2] : tensor<?x4x128xbf16> -> tensor<?x4xf32>
  %1 = kiln.reduce mean %x dims [2] : tensor<?x4x128xbf16> -> tensor<?x4xf32>
  // CHECK: %max = kiln.reduce max %{{.*}} dims [1] : tensor<?x4x128xbf16> -> tensor<?x128xbf16>
  %2 = kiln.reduce max %x dims [1] : tensor<?x4x128xbf16> -> tensor<?x128xbf16>
  // CHECK: %min = kiln.reduce min %{{.*}} dims [0, 1, 2] : tensor<?x4x128xbf16> -> tensor<f32>
  %3 = kiln.reduce min %x dims [0, 1, 2] : tensor<?x4x128xbf16> -> tensor<f32>
  return
}

//--- errors.mlir
func.func @none(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{reduces no dimension; name at least one in dims}}
  %0 = kiln.reduce sum %x dims [] : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}
// -----
func.func @order(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dims [1, 0] of a tensor of rank 2: give increasing dimensions from 0 to 1}}
  %0 = kiln.reduce sum %x dims [1, 0] : tensor<4x8xf32> -> tensor<f32>
  return
}
// -----
func.func @outside(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{dims [2] of a tensor of rank 2: give increasing dimensions from 0 to 1}}
  %0 = kiln.reduce sum %x dims [2] : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}
// -----
func.func @shape(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{output has shape [8], the reduced input asks for [4]}}
  %0 = kiln.reduce sum %x dims [1] : tensor<4x8xf32> -> tensor<8xf32>
  return
}
// -----
func.func @integers(%x: tensor<4x8xi32>) {
  // expected-error @+1 {{operand #0 must be ranked tensor of 32-bit float or bfloat16 type or 16-bit float or 64-bit float values, but got 'tensor<4x8xi32>'}}
  %0 = kiln.reduce sum %x dims [1] : tensor<4x8xi32> -> tensor<4xf32>
  return
}
// -----
func.func @kind(%x: tensor<4x8xf32>) {
  // expected-error @+2 {{to be one of: sum, mean, max, min}}
  // expected-error @+1 {{failed to parse Kiln_ReduceKindAttr parameter 'value'}}
  %0 = kiln.reduce product %x dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  return
}

//--- fold.mlir
// The mean of equal elements is that element; their sum is not.
// CHECK-LABEL: func.func @splat
func.func @splat() -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-DAG: arith.constant dense<3.000000e+00> : tensor<4xf32>
  // CHECK-DAG: kiln.reduce sum
  // CHECK-NOT: kiln.reduce mean
  %c = arith.constant dense<3.0> : tensor<4x8xf32>
  %mean = kiln.reduce mean %c dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  %sum = kiln.reduce sum %c dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  return %mean, %sum : tensor<4xf32>, tensor<4xf32>
}

//--- backward.mlir
// A sum hands its gradient on, a mean a share of it; neither reads x.
// CHECK-LABEL: func.func @sums_backward
// CHECK-SAME: kiln.name = "ds"
// CHECK-SAME: kiln.name = "dm"
// CHECK-DAG: arith.constant dense<1.250000e-01>
// CHECK: kiln.broadcast {{.*}} dims [0]
// CHECK: return
func.func @sums(%x: tensor<4x8xf32> {kiln.name = "x"}) -> (tensor<4xf32> {kiln.name = "s"}, tensor<4xf32> {kiln.name = "m"}) {
  %s = kiln.reduce sum %x dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  %m = kiln.reduce mean %x dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  return %s, %m : tensor<4xf32>, tensor<4xf32>
}
// -----
// The gradient of a maximum is shared by the elements that equal it. Where they are is saved as
// one byte each, for less than reading x again.
// CHECK-LABEL: func.func @largest_forward
// CHECK: %[[MAX:.*]] = kiln.reduce max
// CHECK: arith.cmpf oeq
// CHECK: %[[HITS:.*]] = kiln.reduce sum {{.*}} dims [1]
// CHECK-LABEL: func.func @largest_backward
// CHECK-SAME: (%[[HIT:.*]]: tensor<4x8xi1> {{.*}}, %[[HITS:.*]]: tensor<4xf32> {{.*}}, %[[D:.*]]: tensor<4xf32>
// CHECK: arith.divf %[[D]], %[[HITS]]
// CHECK: arith.select %[[HIT]]
func.func @largest(%x: tensor<4x8xf32> {kiln.name = "x"}) -> tensor<4xf32> {
  %m = kiln.reduce max %x dims [1] : tensor<4x8xf32> -> tensor<4xf32>
  return %m : tensor<4xf32>
}

//--- unknown.mlir
func.func @f(%x: tensor<?x8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{the gradient of a mean over a dimension of unknown size; take the sum and scale it}}
  %m = kiln.reduce mean %x dims [0] : tensor<?x8xf32> -> tensor<8xf32>
  return %m : tensor<8xf32>
}

//--- kernel.mlir
// Rows, columns and everything in one pass; a second kernel adds the partial sums.
// CHECK-LABEL: kiln_sums(const float* x, float* low, float* kiln_sums_partials
// CHECK: float cols_sum[Tile::chunks][Tile::vector] = {};
// CHECK: float all_sum = 0.0f;
// CHECK: min_r[r] = Min::identity();
// CHECK: if (!at.valid(r)) continue;
// CHECK: min_r[r] = Min::combine(min_r[r], x_tile_c[i]);
// CHECK: cols_sum[c][i] += x_tile_c[i];
// CHECK: all_sum += x_tile_c[i];
// CHECK: row_reduce<Min>
// CHECK: store_rows(at, shared_memory() + {{[0-9]+}}, RowStore{low, rows_1, min_r});
// CHECK: store_partial_columns(Tile(row_count, block_index()), shared_memory() + 0,
// CHECK-NEXT: sums_partials + block_index() * 68 + 0, cols_sum);
// CHECK: store_partial_scalar(
// CHECK: sums_partials + block_index() * 68 + 64, all_sum);
// CHECK-LABEL: kiln_sums_columns(const float* partials, i64 lines, float* cols, float* all)
// CHECK: sum_partials<512>(partials, lines, 65, 68, shared_memory() + 0);
// CHECK: store_total(total, 0, 64, cols);
// CHECK: store_total(total, 64, 1, all);
func.func @sums(%x: tensor<?x64xf32> {kiln.name = "x"})
    -> (tensor<?xf32> {kiln.name = "low"}, tensor<64xf32> {kiln.name = "cols"}, tensor<f32> {kiln.name = "all"}) {
  %low = kiln.reduce min %x dims [1] : tensor<?x64xf32> -> tensor<?xf32>
  %cols = kiln.reduce sum %x dims [0] : tensor<?x64xf32> -> tensor<64xf32>
  %all = kiln.reduce sum %x dims [0, 1] : tensor<?x64xf32> -> tensor<f32>
  return %low, %cols, %all : tensor<?xf32>, tensor<64xf32>, tensor<f32>
}

//--- rows.mlir
// One value a row is added up once a row, by its first lane, in the kernel that computes it; a sum
// of ones counts the rows.
// CHECK-LABEL: kiln_total(const float* x, float* kiln_total_partials, i64 row_count)
// CHECK: float all_sum = 0.0f;
// CHECK: float count_sum = 0.0f;
// CHECK: row_reduce<Max>
// CHECK: if (at.lane == 0 && at.valid(r)) all_sum += max_r[r];
// CHECK: if (at.lane == 0 && at.valid(r)) count_sum += 1.0f;
// CHECK: store_partial_scalar(
// CHECK-LABEL: total_columns(
// CHECK: store_total(total, 0, 1, all);
// CHECK: store_total(total, 1, 1, count);
func.func @total(%x: tensor<?x64xf32> {kiln.name = "x"}) -> (tensor<f32> {kiln.name = "all"}, tensor<f32> {kiln.name = "count"}) {
  %m = kiln.reduce max %x dims [1] : tensor<?x64xf32> -> tensor<?xf32>
  %one = arith.constant dense<1.0> : tensor<f32>
  %ones = kiln.broadcast %one dims [] like %m : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
  %all = kiln.reduce sum %m dims [0] : tensor<?xf32> -> tensor<f32>
  %count = kiln.reduce sum %ones dims [0] : tensor<?xf32> -> tensor<f32>
  return %all, %count : tensor<f32>, tensor<f32>
}
