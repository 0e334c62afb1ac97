// kiln.broadcast: its text, what it refuses, what it folds, its derived backward, its kernel.
// RUN: split-file %s %t
// RUN: kiln-opt %t/text.mlir | kiln-opt | FileCheck %t/text.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/fold.mlir --kiln-canonicalize | FileCheck %t/fold.mlir
// RUN: kiln-opt %t/backward.mlir -split-input-file --kiln-differentiate | FileCheck %t/backward.mlir
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir

//--- text.mlir
// CHECK-LABEL: func.func @f
func.func @f(%g: tensor<128xf32>, %x: tensor<?x128xbf16>, %r: tensor<4x1xi32>) {
  // CHECK: kiln.broadcast %{{.*}} dims [1] like %{{.*}} : tensor<128xf32>, tensor<?x128xbf16> -> tensor<?x128xf32>
  %0 = kiln.broadcast %g dims [1] like %x : tensor<128xf32>, tensor<?x128xbf16> -> tensor<?x128xf32>
  // CHECK: kiln.broadcast %{{.*}} dims [0, 2] : tensor<4x1xi32> -> tensor<4x3x8xi32>
  %1 = kiln.broadcast %r dims [0, 2] : tensor<4x1xi32> -> tensor<4x3x8xi32>
  %c = arith.constant dense<1.0> : tensor<f32>
  // CHECK: kiln.broadcast %{{.*}} dims [] : tensor<f32> -> tensor<4x8xf32>
  %2 = kiln.broadcast %c dims [] : tensor<f32> -> tensor<4x8xf32>
  return
}

//--- errors.mlir
func.func @converts(%g: tensor<8xf32>) {
  // expected-error @+1 {{input has elements of type 'f32', the result 'bf16'; a broadcast does not convert (use arith.extf or arith.truncf)}}
  %0 = kiln.broadcast %g dims [1] : tensor<8xf32> -> tensor<4x8xbf16>
  return
}
// -----
func.func @count(%g: tensor<8xf32>) {
  // expected-error @+1 {{has 2 dims for an input of rank 1; name one result dimension for each}}
  %0 = kiln.broadcast %g dims [0, 1] : tensor<8xf32> -> tensor<4x8xf32>
  return
}
// -----
func.func @order(%g: tensor<4x8xf32>) {
  // expected-error @+1 {{dims [2, 1] into a result of rank 3: give increasing dimensions from 0 to 2}}
  %0 = kiln.broadcast %g dims [2, 1] : tensor<4x8xf32> -> tensor<2x8x4xf32>
  return
}
// -----
func.func @size(%g: tensor<7xf32>) {
  // expected-error @+1 {{dimension 0 of the input and dimension 1 of the result differ in size; they must agree, or the input's be 1}}
  %0 = kiln.broadcast %g dims [1] : tensor<7xf32> -> tensor<4x8xf32>
  return
}
// -----
func.func @no_like(%g: tensor<8xf32>) {
  // expected-error @+1 {{the result has dynamic sizes; name a tensor of that shape with 'like'}}
  %0 = kiln.broadcast %g dims [1] : tensor<8xf32> -> tensor<?x8xf32>
  return
}
// -----
func.func @like(%g: tensor<8xf32>, %x: tensor<?x9xf32>) {
  // expected-error @+1 {{like has shape [?, 9], the result asks for [?, 8]}}
  %0 = kiln.broadcast %g dims [1] like %x : tensor<8xf32>, tensor<?x9xf32> -> tensor<?x8xf32>
  return
}

//--- fold.mlir
// A broadcast to the same shape is nothing.
// CHECK-LABEL: func.func @same(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>)
// CHECK-NEXT: return %[[X]]
func.func @same(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = kiln.broadcast %x dims [0, 1] : tensor<4x8xf32> -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

//--- backward.mlir
// What was repeated is summed, with one reduction.
// CHECK-LABEL: func.func @rows_backward(
// CHECK-SAME: %[[D:.*]]: tensor<2x4x8xf32>
// CHECK-NEXT: %[[S:.*]] = kiln.reduce sum %[[D]] dims [0, 1] : tensor<2x4x8xf32> -> tensor<8xf32>
// CHECK-NEXT: return %[[S]]
func.func @rows(%g: tensor<8xf32>) -> tensor<2x4x8xf32> {
  %0 = kiln.broadcast %g dims [2] : tensor<8xf32> -> tensor<2x4x8xf32>
  return %0 : tensor<2x4x8xf32>
}
// -----
// A dimension of size 1 that grew comes back with size 1.
// CHECK-LABEL: func.func @grown_backward(
// CHECK: %[[S:.*]] = kiln.reduce sum %{{.*}} dims [1] : tensor<4x8xf32> -> tensor<4xf32>
// CHECK: kiln.broadcast %[[S]] dims [0] : tensor<4xf32> -> tensor<4x1xf32>
func.func @grown(%r: tensor<4x1xf32>) -> tensor<4x8xf32> {
  %0 = kiln.broadcast %r dims [0, 1] : tensor<4x1xf32> -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
// -----
// Of `like` no number is read: what it gave a shape to has no gradient.
// CHECK-LABEL: func.func @sizes_backward(
// CHECK-SAME: %[[D:.*]]: tensor<?x8xf32> {kiln.name = "dout0"}) ->
// CHECK-NEXT: arith.negf %[[D]]
func.func @sizes(%x: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %c = arith.constant dense<1.0> : tensor<f32>
  %0 = arith.negf %x : tensor<?x8xf32>
  %1 = kiln.broadcast %c dims [] like %x : tensor<f32>, tensor<?x8xf32> -> tensor<?x8xf32>
  return %0, %1 : tensor<?x8xf32>, tensor<?x8xf32>
}

//--- kernel.mlir
// Nothing is copied: a row is read once a chunk, a row value once a row, a scalar once.
// `r` is the loop variable of the generated text: the argument of that name gets a number.
// CHECK-LABEL: kiln_add(const float* x, const float* g, const float* r_1, const float* s, float* y,
// CHECK-NEXT: i64 row_count)
// CHECK: s_0 = load_vector<1, 1>(s)[0];
// CHECK: load_rows(at, r_r, r_1,
// CHECK: load_columns<{{[0-9]}}>(at, c, g);
// CHECK: y_c[i] = x_tile_c[i] + g_c[i] + r_r[r] + s_0;
func.func @add(%x: tensor<?x8xf32> {kiln.name = "x"}, %g: tensor<8xf32> {kiln.name = "g"}, %r: tensor<?xf32> {kiln.name = "r"}, %s: tensor<f32> {kiln.name = "s"})
    -> (tensor<?x8xf32> {kiln.name = "y"}) {
  %0 = kiln.broadcast %g dims [1] like %x : tensor<8xf32>, tensor<?x8xf32> -> tensor<?x8xf32>
  %1 = kiln.broadcast %r dims [0] like %x : tensor<?xf32>, tensor<?x8xf32> -> tensor<?x8xf32>
  %2 = kiln.broadcast %s dims [] like %x : tensor<f32>, tensor<?x8xf32> -> tensor<?x8xf32>
  %3 = arith.addf %x, %0 : tensor<?x8xf32>
  %4 = arith.addf %3, %1 : tensor<?x8xf32>
  %5 = arith.addf %4, %2 : tensor<?x8xf32>
  return %5 : tensor<?x8xf32>
}
