// kiln.segment_sum: its text, what it refuses, its derived backward, its kernels.
// RUN: split-file %s %t
// RUN: kiln-opt %t/text.mlir | kiln-opt | FileCheck %t/text.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/backward.mlir --kiln-differentiate | FileCheck %t/backward.mlir
// RUN: kiln-opt %t/unknown.mlir --kiln-differentiate -verify-diagnostics
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir

//--- text.mlir
// CHECK-LABEL: func.func @f
func.func @f(%x: tensor<?x3x8xbf16>, %i: tensor<?x3xi64>, %l: tensor<?x8xf32>) {
  // CHECK: %sum = kiln.segment_sum %{{.*}}, %{{.*}} {padding_index = 0 : i64} : tensor<?x3x8xbf16>, tensor<?x3xi64> -> tensor<50x8xbf16>
  %0 = kiln.segment_sum %x, %i {padding_index = 0 : i64} : tensor<?x3x8xbf16>, tensor<?x3xi64> -> tensor<50x8xbf16>
  // CHECK: kiln.segment_sum %{{.*}}, %{{.*}} like %{{.*}} : tensor<?x3x8xbf16>, tensor<?x3xi64>, tensor<?x8xf32> -> tensor<?x8xf32>
  %1 = kiln.segment_sum %x, %i like %l : tensor<?x3x8xbf16>, tensor<?x3xi64>, tensor<?x8xf32> -> tensor<?x8xf32>
  return
}

//--- errors.mlir
func.func @rank(%x: tensor<4x8xf32>, %i: tensor<4xi32>) {
  // expected-error @+1 {{output has rank 1; a table has 2 dimensions, its rows and their elements}}
  %0 = kiln.segment_sum %x, %i : tensor<4x8xf32>, tensor<4xi32> -> tensor<8xf32>
  return
}
// -----
func.func @width(%x: tensor<4x8xf32>, %i: tensor<4xi32>) {
  // expected-error @+1 {{output has rows of 9 elements, the input of 8; they must agree}}
  %0 = kiln.segment_sum %x, %i : tensor<4x8xf32>, tensor<4xi32> -> tensor<5x9xf32>
  return
}
// -----
func.func @dynamic(%x: tensor<4x8xf32>, %i: tensor<4xi32>) {
  // expected-error @+1 {{the number of segments is dynamic; name a tensor of the shape of the result with 'like'}}
  %0 = kiln.segment_sum %x, %i : tensor<4x8xf32>, tensor<4xi32> -> tensor<?x8xf32>
  return
}
// -----
func.func @like(%x: tensor<4x8xf32>, %i: tensor<4xi32>, %l: tensor<6x8xf32>) {
  // expected-error @+1 {{like has shape [6, 8], the result asks for [5, 8]}}
  %0 = kiln.segment_sum %x, %i like %l : tensor<4x8xf32>, tensor<4xi32>, tensor<6x8xf32> -> tensor<5x8xf32>
  return
}
// -----
func.func @index(%x: tensor<4x8xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{index has shape [3], the input asks for [4]}}
  %0 = kiln.segment_sum %x, %i : tensor<4x8xf32>, tensor<3xi32> -> tensor<5x8xf32>
  return
}
// -----
func.func @padding(%x: tensor<4x8xf32>, %i: tensor<4xi32>) {
  // expected-error @+1 {{padding_index is -2147483649, which indices of type i32 cannot hold}}
  %0 = kiln.segment_sum %x, %i {padding_index = -2147483649 : i64} : tensor<4x8xf32>, tensor<4xi32> -> tensor<5x8xf32>
  return
}

//--- backward.mlir
// Each row gets the gradient of its segment; one that names none gets zero.
// CHECK-LABEL: func.func @f_backward(
// CHECK-SAME: %[[I:.*]]: tensor<?xi32> {kiln.name = "in1"{{.*}}}, %[[D:.*]]: tensor<50x8xf32> {kiln.name = "dout0"})
// CHECK-DAG: kiln.gather %[[D]], %[[I]] : tensor<50x8xf32>, tensor<?xi32> -> tensor<?x8xf32>
// CHECK-DAG: arith.cmpi ult, %[[I]]
// CHECK: arith.select
func.func @f(%x: tensor<?x8xf32>, %i: tensor<?xi32>) -> tensor<50x8xf32> {
  %0 = kiln.segment_sum %x, %i : tensor<?x8xf32>, tensor<?xi32> -> tensor<50x8xf32>
  return %0 : tensor<50x8xf32>
}

//--- unknown.mlir
func.func @f(%x: tensor<?x8xf32>, %i: tensor<?xi32>, %l: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-error @+1 {{the gradient of a sum over a number of segments that is known at run time only; give it as a constant}}
  %0 = kiln.segment_sum %x, %i like %l : tensor<?x8xf32>, tensor<?xi32>, tensor<?x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

//--- kernel.mlir
// Many segments: a group of threads for each, the block for those with many rows. Few: a block for
// each part of one, and a kernel that adds the parts.
// CHECK-LABEL: kiln_tokens_lists(const i32* token, i32* kiln_tokens_spans, i32* kiln_tokens_rows, i64 row_count)
// CHECK: using Tile = ListTile<512 /*threads*/, 256 /*segments*/>;
// CHECK-NEXT: static_assert(list_rows_bytes<Tile>() <= 17472);
// CHECK-NEXT: list_rows(Tile(), shared_memory() + 0, token, rows_1, row_count, 50304ll, 3, kiln_tokens_spans,
// CHECK-LABEL: kiln_tokens(const bf16* dy, bf16* dtable, const i32* kiln_tokens_spans,
// CHECK: const ListedTerms terms{kiln_tokens_spans, kiln_tokens_rows, rows_1280};
// CHECK: SumTile<1280 /*columns*/, 32 /*lanes*/, 8 /*vector*/, 8 /*units*/, 1 /*parts*/,
// CHECK-LABEL: kiln_positions_lists(const i64* position,
// CHECK-LABEL: kiln_positions_parts(const float* dz, float* kiln_positions_partials,
// CHECK: SumTile<128 /*columns*/, 32 /*lanes*/, 4 /*vector*/, 1 /*units*/, 8 /*parts*/,
// CHECK-LABEL: kiln_positions(const float* kiln_positions_partials, float* dweight)
func.func @sums(%x: tensor<?x1280xbf16> {kiln.name = "dy"}, %i: tensor<?xi32> {kiln.name = "token"}, %z: tensor<65536x128xf32> {kiln.name = "dz"}, %j: tensor<65536xi64> {kiln.name = "position"})
    -> (tensor<50304x1280xbf16> {kiln.name = "dtable"}, tensor<65x128xf32> {kiln.name = "dweight"}) {
  %0 = kiln.kernel "tokens"(%x, %i) : (tensor<?x1280xbf16>, tensor<?xi32>) -> tensor<50304x1280xbf16> {
  ^bb0(%a: tensor<?x1280xbf16>, %b: tensor<?xi32>):
    %s = kiln.segment_sum %a, %b {padding_index = 3 : i64} : tensor<?x1280xbf16>, tensor<?xi32> -> tensor<50304x1280xbf16>
    kiln.yield %s : tensor<50304x1280xbf16>
  }
  %1 = kiln.kernel "positions"(%z, %j) : (tensor<65536x128xf32>, tensor<65536xi64>) -> tensor<65x128xf32> {
  ^bb0(%a: tensor<65536x128xf32>, %b: tensor<65536xi64>):
    %s = kiln.segment_sum %a, %b : tensor<65536x128xf32>, tensor<65536xi64> -> tensor<65x128xf32>
    kiln.yield %s : tensor<65x128xf32>
  }
  return %0, %1 : tensor<50304x1280xbf16>, tensor<65x128xf32>
}
