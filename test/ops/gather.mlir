// kiln.gather: its text, what it refuses, its derived backward, its kernels.
// RUN: split-file %s %t
// RUN: kiln-opt %t/text.mlir | kiln-opt | FileCheck %t/text.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/backward.mlir --kiln-differentiate | FileCheck %t/backward.mlir
// RUN: kiln-opt %t/refused.mlir -split-input-file --kiln-schedule -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir

//--- text.mlir
// CHECK-LABEL: func.func @f
func.func @f(%t: tensor<?x8xbf16>, %i: tensor<?x3xi64>) {
  // CHECK: %gathered = kiln.gather %{{.*}}, %{{.*}} {padding_index = -1 : i64} : tensor<?x8xbf16>, tensor<?x3xi64> -> tensor<?x3x8xbf16>
  %0 = kiln.gather %t, %i {padding_index = -1 : i64} : tensor<?x8xbf16>, tensor<?x3xi64> -> tensor<?x3x8xbf16>
  return
}

//--- errors.mlir
func.func @rank(%t: tensor<4x5x8xf32>, %i: tensor<2xi32>) {
  // expected-error @+1 {{table has rank 3; a table has 2 dimensions, its rows and their elements}}
  %0 = kiln.gather %t, %i : tensor<4x5x8xf32>, tensor<2xi32> -> tensor<2x8xf32>
  return
}
// -----
func.func @width(%t: tensor<4x?xf32>, %i: tensor<2xi32>) {
  // expected-error @+1 {{table has shape [4, ?]; the size of its rows is a constant of at least 1}}
  %0 = kiln.gather %t, %i : tensor<4x?xf32>, tensor<2xi32> -> tensor<2x?xf32>
  return
}
// -----
func.func @shape(%t: tensor<4x8xf32>, %i: tensor<2xi32>) {
  // expected-error @+1 {{output has shape [3, 8], index and table asks for [2, 8]}}
  %0 = kiln.gather %t, %i : tensor<4x8xf32>, tensor<2xi32> -> tensor<3x8xf32>
  return
}
// -----
func.func @type(%t: tensor<4x8xf32>, %i: tensor<2xi32>) {
  // expected-error @+1 {{output has elements of type 'bf16', the table 'f32'; a gather does not convert}}
  %0 = kiln.gather %t, %i : tensor<4x8xf32>, tensor<2xi32> -> tensor<2x8xbf16>
  return
}
// -----
func.func @padding(%t: tensor<4x8xf32>, %i: tensor<2xi32>) {
  // expected-error @+1 {{padding_index is 4294967296, which indices of type i32 cannot hold}}
  %0 = kiln.gather %t, %i {padding_index = 4294967296 : i64} : tensor<4x8xf32>, tensor<2xi32> -> tensor<2x8xf32>
  return
}

//--- backward.mlir
// The gradient is summed as it is given and rounded to the type of the table, which is not read.
// CHECK-LABEL: func.func @f_backward(
// CHECK-SAME: %[[I:.*]]: tensor<?xi32> {kiln.name = "in1"{{.*}}}, %[[D:.*]]: tensor<?x8xbf16> {kiln.name = "dout0"})
// CHECK-NEXT: %[[W:.*]] = arith.extf %[[D]]
// CHECK-NEXT: %[[S:.*]] = kiln.segment_sum %[[W]], %[[I]] {padding_index = 2 : i64} : tensor<?x8xf32>, tensor<?xi32> -> tensor<50x8xf32>
// CHECK-NEXT: arith.truncf %[[S]]
func.func @f(%t: tensor<50x8xbf16>, %i: tensor<?xi32>) -> tensor<?x8xbf16> {
  %0 = kiln.gather %t, %i {padding_index = 2 : i64} : tensor<50x8xbf16>, tensor<?xi32> -> tensor<?x8xbf16>
  return %0 : tensor<?x8xbf16>
}

//--- refused.mlir
func.func @computed(%t: tensor<50x8xf32>, %i: tensor<?xi32>) -> tensor<?x8xf32> {
  // expected-note @+1 {{in kernel 'k'}}
  %y = kiln.kernel "k"(%t, %i) : (tensor<50x8xf32>, tensor<?xi32>) -> tensor<?x8xf32> {
  ^bb0(%a: tensor<50x8xf32>, %b: tensor<?xi32>):
    %e = math.exp %a : tensor<50x8xf32>
    // expected-error @+1 {{a gather reads any row of its table, which is complete only after the kernel that computes it}}
    %g = kiln.gather %e, %b : tensor<50x8xf32>, tensor<?xi32> -> tensor<?x8xf32>
    kiln.yield %g : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}
// -----
func.func @repeated(%t: tensor<50x1xf32>, %i: tensor<4xi32>) -> tensor<4x8xf32> {
  // expected-note @+1 {{in kernel 'k'}}
  %y = kiln.kernel "k"(%t, %i) : (tensor<50x1xf32>, tensor<4xi32>) -> tensor<4x8xf32> {
  ^bb0(%a: tensor<50x1xf32>, %b: tensor<4xi32>):
    // expected-error @+1 {{rows that are gathered lie along the rows of the space [4, 8]; these do not}}
    %g = kiln.gather %a, %b : tensor<50x1xf32>, tensor<4xi32> -> tensor<4x1xf32>
    %r = kiln.broadcast %g dims [0, 1] : tensor<4x1xf32> -> tensor<4x8xf32>
    kiln.yield %r : tensor<4x8xf32>
  }
  return %y : tensor<4x8xf32>
}
// -----
func.func @reduced(%t: tensor<50x8xf32>, %x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-note @+1 {{in kernel 'k'}}
  %y = kiln.kernel "k"(%t, %x) : (tensor<50x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: tensor<50x8xf32>, %b: tensor<4x8xf32>):
    %m = kiln.reduce max %b dims [1] : tensor<4x8xf32> -> tensor<4xf32>
    %i = arith.fptosi %m : tensor<4xf32> to tensor<4xi32>
    // expected-error @+1 {{the index of a gather differs along a row or depends on its reduction}}
    %g = kiln.gather %a, %i : tensor<50x8xf32>, tensor<4xi32> -> tensor<4x8xf32>
    kiln.yield %g : tensor<4x8xf32>
  }
  return %y : tensor<4x8xf32>
}

//--- kernel.mlir
// An embedding and its norm: the row that the token names, read once; padding is selected away.
// CHECK-LABEL: embed(const bf16* table, const i32* token, const float* gamma, bf16* y, i64 row_count)
// CHECK: load_rows(at, token_r, token, rows_1);
// CHECK: row_r[r] = token_r[r] == 0;
// CHECK: load(at, gathered_tile, gathered<8>(at, table, token_r, 50304ll, 1280ll));
// CHECK: row_r[r] ? t : gathered_tile_c[i]
// CHECK: row_reduce<Sum>
func.func @embed(%t: tensor<50304x1280xbf16> {kiln.name = "table"}, %i: tensor<?xi32> {kiln.name = "token"}, %g: tensor<1280xf32> {kiln.name = "gamma"})
    -> (tensor<?x1280xbf16> {kiln.name = "y"}) {
  %e = kiln.gather %t, %i {padding_index = 0 : i64} : tensor<50304x1280xbf16>, tensor<?xi32> -> tensor<?x1280xbf16>
  %y, %r = kiln.rms_norm %e, %g : (tensor<?x1280xbf16>, tensor<1280xf32>) -> (tensor<?x1280xbf16>, tensor<?xf32>)
  return %y : tensor<?x1280xbf16>
}
