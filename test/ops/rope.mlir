// kiln.rope: its text, what it refuses, its derived backward, its kernel.
// RUN: split-file %s %t
// RUN: kiln-opt %t/text.mlir | kiln-opt | FileCheck %t/text.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/backward.mlir --kiln-differentiate="function=f" --kiln-fuse | FileCheck %t/backward.mlir
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable=function=half -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable=function=part -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir --check-prefix=PART

//--- text.mlir
// CHECK-LABEL: func.func @f
func.func @f(%x: tensor<?x?x4x8xbf16>, %p: tensor<?xi32>, %q: tensor<?x1xi64>, %one: tensor<i64>) {
  // CHECK: %y = kiln.rope %{{.*}}, %{{.*}} dims [1] half_split : tensor<?x?x4x8xbf16>, tensor<?xi32> -> tensor<?x?x4x8xbf16>
  %0 = kiln.rope %x, %p dims [1] half_split : tensor<?x?x4x8xbf16>, tensor<?xi32> -> tensor<?x?x4x8xbf16>
  // CHECK: kiln.rope %{{.*}}, %{{.*}} dims [0, 2] interleaved base 5.000000e+05 width 6 inverse : tensor<?x?x4x8xbf16>, tensor<?x1xi64> -> tensor<?x?x4x8xf32>
  %1 = kiln.rope %x, %q dims [0, 2] interleaved base 5.0e5 width 6 inverse : tensor<?x?x4x8xbf16>, tensor<?x1xi64> -> tensor<?x?x4x8xf32>
  // CHECK: kiln.rope %{{.*}}, %{{.*}} dims [] interleaved : tensor<?x?x4x8xbf16>, tensor<i64>
  %2 = kiln.rope %x, %one dims [] interleaved : tensor<?x?x4x8xbf16>, tensor<i64> -> tensor<?x?x4x8xbf16>
  return
}

//--- errors.mlir
func.func @odd(%x: tensor<4x7xf32>, %p: tensor<4xi32>) {
  // expected-error @+1 {{turns pairs of 7 columns of a row of 7; an even number from 2 to the size of the row is allowed}}
  %y = kiln.rope %x, %p dims [0] half_split : tensor<4x7xf32>, tensor<4xi32> -> tensor<4x7xf32>
  return
}
// -----
func.func @wide(%x: tensor<4x8xf32>, %p: tensor<4xi32>) {
  // expected-error @+1 {{turns pairs of 10 columns of a row of 8; an even number from 2 to the size of the row is allowed}}
  %y = kiln.rope %x, %p dims [0] half_split width 10 : tensor<4x8xf32>, tensor<4xi32> -> tensor<4x8xf32>
  return
}
// -----
func.func @base(%x: tensor<4x8xf32>, %p: tensor<4xi32>) {
  // expected-error @+1 {{base 5.000000e-01: give a number from 1 to 1e30}}
  %y = kiln.rope %x, %p dims [0] half_split base 0.5 : tensor<4x8xf32>, tensor<4xi32> -> tensor<4x8xf32>
  return
}
// -----
func.func @count(%x: tensor<2x4x8xf32>, %p: tensor<4xi32>) {
  // expected-error @+1 {{has 2 dims for positions of rank 1; name one dimension of the input for each}}
  %y = kiln.rope %x, %p dims [0, 1] half_split : tensor<2x4x8xf32>, tensor<4xi32> -> tensor<2x4x8xf32>
  return
}
// -----
func.func @row(%x: tensor<2x4x8xf32>, %p: tensor<8xi32>) {
  // expected-error @+1 {{dims [2] for an input of 2 leading dimensions: give increasing dimensions from 0 to 1}}
  %y = kiln.rope %x, %p dims [2] half_split : tensor<2x4x8xf32>, tensor<8xi32> -> tensor<2x4x8xf32>
  return
}
// -----
func.func @size(%x: tensor<2x4x8xf32>, %p: tensor<3xi32>) {
  // expected-error @+1 {{dimension 0 of the positions and dimension 1 of the input differ in size; they must agree, or the positions' be 1}}
  %y = kiln.rope %x, %p dims [1] half_split : tensor<2x4x8xf32>, tensor<3xi32> -> tensor<2x4x8xf32>
  return
}
// -----
func.func @output(%x: tensor<2x8xf32>, %p: tensor<2xi32>) {
  // expected-error @+1 {{output has shape [2, 6], the input asks for [2, 8]}}
  %y = kiln.rope %x, %p dims [0] half_split : tensor<2x8xf32>, tensor<2xi32> -> tensor<2x6xf32>
  return
}

//--- backward.mlir
// The backward turns dy back in one kernel; it reads the positions, not x.
// CHECK-NOT: @f_forward
// CHECK-LABEL: func.func @f_backward(%{{.*}}: tensor<?xi32> {kiln.name = "p", kiln.older}, %{{.*}}: tensor<?x?x4x8xbf16> {kiln.name = "dy"}) -> (tensor<?x?x4x8xbf16> {kiln.name = "dx"})
// CHECK-NEXT: kiln.kernel "f_backward"
// CHECK: kiln.partner
// CHECK-NOT: kiln.kernel
func.func @f(%x: tensor<?x?x4x8xbf16> {kiln.name = "x"}, %p: tensor<?xi32> {kiln.name = "p"}) -> (tensor<?x?x4x8xbf16> {kiln.name = "y"}) {
  %y = kiln.rope %x, %p dims [1] half_split : tensor<?x?x4x8xbf16>, tensor<?xi32> -> tensor<?x?x4x8xbf16>
  return %y : tensor<?x?x4x8xbf16>
}

//--- kernel.mlir
// One position a row, for all heads and batches. The frequency is made of the column alone, so that
// the compiler shares it among rows; cosine and sine are of a reduced angle.
// CHECK-LABEL: half(const bf16* x, const i32* p, bf16* y, i64 row_count
// CHECK: const Paired<Halves<128>, bf16> x_pairs{x};
// CHECK: load<[[V:[0-9]+]]>(at, [[X:x_tile[_0-9]*]], x, rows_x_1024_128);
// CHECK: load<[[V]]>(at, [[O:x_tile[_0-9]*]], x_pairs, rows_x_1024_128);
// CHECK: load_rows(at, p_r, p, rows_0_1_0);
// CHECK: const float [[S:.*]] = fast_sine([[A:t_[0-9]*]]);
// CHECK: y_c[i] = float({{.*}}) * fast_cosine([[A]]) + float({{.*}}) * (t ? -[[S]] : [[S]]);
func.func @half(%x: tensor<?x?x8x128xbf16> {kiln.name = "x"}, %p: tensor<?xi32> {kiln.name = "p"}) -> (tensor<?x?x8x128xbf16> {kiln.name = "y"}) {
  %y = kiln.rope %x, %p dims [1] half_split : tensor<?x?x8x128xbf16>, tensor<?xi32> -> tensor<?x?x8x128xbf16>
  return %y : tensor<?x?x8x128xbf16>
}
// Columns behind the width are copied.
// PART-LABEL: part(
// PART: const Paired<Neighbours<32>, float> x_pairs{x};
// PART: y_c[i] = u64(column) < u64(32) ?
// PART-NEXT: : x_tile_c[i];
func.func @part(%x: tensor<?x128xf32> {kiln.name = "x"}, %p: tensor<?xi64> {kiln.name = "p"}) -> (tensor<?x128xf32> {kiln.name = "y"}) {
  %y = kiln.rope %x, %p dims [0] interleaved width 32 : tensor<?x128xf32>, tensor<?xi64> -> tensor<?x128xf32>
  return %y : tensor<?x128xf32>
}
