// kiln.random: its text, what it refuses, that it is computed wherever it is used, its kernels.
// RUN: split-file %s %t
// RUN: kiln-opt %t/text.mlir | kiln-opt | FileCheck %t/text.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/fuse.mlir --kiln-fuse | FileCheck %t/fuse.mlir
// RUN: kiln-opt %t/unknown.mlir --kiln-fuse --kiln-schedule -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable=function=all -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable=function=shared -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir --check-prefix=SHARED

//--- text.mlir
// CHECK-LABEL: func.func @f
func.func @f(%seed: tensor<i64>, %offset: tensor<i64>, %x: tensor<?x?x128xbf16>) {
  // CHECK: %u = kiln.random %{{.*}}, %{{.*}} like %{{.*}} : tensor<?x?x128xbf16> -> tensor<?x?x128xf32>
  %0 = kiln.random %seed, %offset like %x : tensor<?x?x128xbf16> -> tensor<?x?x128xf32>
  // CHECK: kiln.random %{{.*}}, %{{.*}} like %{{.*}} : tensor<?x?x128xbf16> -> tensor<1x?x1xf32>
  %1 = kiln.random %seed, %offset like %x : tensor<?x?x128xbf16> -> tensor<1x?x1xf32>
  // CHECK: kiln.random %{{.*}}, %{{.*}} -> tensor<4x8xi32>
  %2 = kiln.random %seed, %offset bits 32 -> tensor<4x8xi32>
  // CHECK: kiln.random %{{.*}}, %{{.*}} bits 16 -> tensor<4x8xi32>
  %3 = kiln.random %seed, %offset bits 16 -> tensor<4x8xi32>
  return
}

//--- errors.mlir
func.func @seed(%seed: tensor<1xi64>, %offset: tensor<i64>) {
  // expected-error @+1 {{operand #0 must be 0D tensor of 64-bit signless integer values, but got 'tensor<1xi64>'}}
  %0 = "kiln.random"(%seed, %offset) : (tensor<1xi64>, tensor<i64>) -> tensor<8xf32>
  return
}
// -----
func.func @offset(%seed: tensor<i64>, %offset: tensor<i32>) {
  // expected-error @+1 {{operand #1 must be 0D tensor of 64-bit signless integer values, but got 'tensor<i32>'}}
  %0 = "kiln.random"(%seed, %offset) : (tensor<i64>, tensor<i32>) -> tensor<8xf32>
  return
}
// -----
func.func @element(%seed: tensor<i64>, %offset: tensor<i64>) {
  // expected-error @+1 {{result #0 must be ranked tensor of 32-bit float or 32-bit signless integer values, but got 'tensor<8xbf16>'}}
  %0 = kiln.random %seed, %offset -> tensor<8xbf16>
  return
}
// -----
func.func @bits(%seed: tensor<i64>, %offset: tensor<i64>) {
  // expected-error @+1 {{a number has 16 or 32 bits, not 24}}
  %0 = kiln.random %seed, %offset bits 24 -> tensor<8xf32>
  return
}
// -----
func.func @no_like(%seed: tensor<i64>, %offset: tensor<i64>) {
  // expected-error @+1 {{the result has dynamic sizes; name a tensor of that shape with 'like'}}
  %0 = kiln.random %seed, %offset -> tensor<?x8xf32>
  return
}
// -----
func.func @rank(%seed: tensor<i64>, %offset: tensor<i64>, %x: tensor<4x8xf32>) {
  // expected-error @+1 {{like has rank 2, the result 1}}
  %0 = kiln.random %seed, %offset like %x : tensor<4x8xf32> -> tensor<8xf32>
  return
}
// -----
func.func @size(%seed: tensor<i64>, %offset: tensor<i64>, %x: tensor<?x8xf32>) {
  // expected-error @+1 {{dimension 0 of the result and of like differ in size; they must agree, or the result's be 1}}
  %0 = kiln.random %seed, %offset like %x : tensor<?x8xf32> -> tensor<4x8xf32>
  return
}

//--- fuse.mlir
// Two kernels that use the same numbers compute them; nothing is stored between them.
// CHECK-LABEL: func.func @twice
// CHECK: kiln.kernel "twice_0"(%{{.*}}) : (tensor<4x8xf32>, tensor<i64>, tensor<i64>) -> tensor<4x8xf32>
// CHECK: kiln.random
// CHECK: kiln.kernel "mine"
// CHECK: kiln.kernel "twice_1"(%{{.*}}) : (tensor<4x8xf32>, tensor<i64>, tensor<i64>) -> tensor<4x8xf32>
// CHECK: kiln.random
func.func @twice(%x: tensor<4x8xf32>, %seed: tensor<i64>, %offset: tensor<i64>) -> tensor<4x8xf32> {
  %u = kiln.random %seed, %offset -> tensor<4x8xf32>
  %a = arith.mulf %x, %u : tensor<4x8xf32>
  %b = kiln.kernel "mine"(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%i: tensor<4x8xf32>):
    %s = math.sin %i : tensor<4x8xf32>
    kiln.yield %s : tensor<4x8xf32>
  }
  %c = arith.mulf %b, %u : tensor<4x8xf32>
  return %c : tensor<4x8xf32>
}

//--- unknown.mlir
// A kernel must see the sizes it runs over in something that it reads or writes.
func.func @sum(%x: tensor<?x8xf32>, %seed: tensor<i64>, %offset: tensor<i64>) -> tensor<8xf32> {
  %y = arith.addf %x, %x : tensor<?x8xf32>
  // expected-error @+1 {{the size of dimension 0 is that of no tensor that the kernel reads or writes}}
  %s = kiln.kernel "sum"(%x, %seed, %offset) : (tensor<?x8xf32>, tensor<i64>, tensor<i64>) -> tensor<8xf32> {
  ^bb0(%i: tensor<?x8xf32>, %k: tensor<i64>, %o: tensor<i64>):
    %j = math.exp %i : tensor<?x8xf32>
    %u = kiln.random %k, %o like %j : tensor<?x8xf32> -> tensor<?x8xf32>
    %t = kiln.reduce sum %u dims [0] : tensor<?x8xf32> -> tensor<8xf32>
    kiln.yield %t : tensor<8xf32>
  }
  return %s : tensor<8xf32>
}

//--- kernel.mlir
// Numbers of elements are a tile that is computed where it is read, a vector at a time; nothing is
// loaded but seed and offset.
// CHECK-LABEL: all_copy0(const i64* seed, const i64* offset, float* u, i64 row_count)
// CHECK: const i64 seed_0 = load_vector<1, 1>(seed)[0];
// CHECK: const i64 offset_0 = load_vector<1, 1>(offset)[0];
// CHECK: const auto u_tile = random_tile<float, 32>(at, rows_128, seed_0, offset_0);
// CHECK: const auto u_tile_c = u_tile.get(r, c);
// CHECK: u_c[i] = u_tile_c[i];
func.func @all(%seed: tensor<i64> {kiln.name = "seed"}, %offset: tensor<i64> {kiln.name = "offset"}, %x: tensor<?x128xf32>) -> (tensor<?x128xf32> {kiln.name = "u"}) {
  %u = kiln.random %seed, %offset like %x : tensor<?x128xf32> -> tensor<?x128xf32>
  return %u : tensor<?x128xf32>
}
// Numbers of rows are computed once a row; those of columns do not depend on the row (stride 0);
// the map of each walks its own shape.
// SHARED-LABEL: shared(const float* x, const i64* seed, const i64* offset, float* y, i64 row_count)
// SHARED: const RowMap<2> rows_0_128{
// SHARED: const RowMap<2> rows_5_1{
// SHARED: random_tile<float, 16>(at, rows_0_128, seed_0, offset_0);
// SHARED: random_rows<32>(at, {{.*}}, rows_5_1, seed_0, offset_0);
func.func @shared(%seed: tensor<i64> {kiln.name = "seed"}, %offset: tensor<i64> {kiln.name = "offset"}, %x: tensor<?x5x128xf32> {kiln.name = "x"}) -> (tensor<?x5x128xf32> {kiln.name = "y"}) {
  %u = kiln.random %seed, %offset bits 16 like %x : tensor<?x5x128xf32> -> tensor<1x5x128xf32>
  %v = kiln.random %seed, %offset like %x : tensor<?x5x128xf32> -> tensor<?x5x1xf32>
  %a = kiln.broadcast %u dims [0, 1, 2] like %x : tensor<1x5x128xf32>, tensor<?x5x128xf32> -> tensor<?x5x128xf32>
  %b = kiln.broadcast %v dims [0, 1, 2] like %x : tensor<?x5x1xf32>, tensor<?x5x128xf32> -> tensor<?x5x128xf32>
  %c = arith.mulf %x, %a : tensor<?x5x128xf32>
  %y = arith.mulf %c, %b : tensor<?x5x128xf32>
  return %y : tensor<?x5x128xf32>
}
