// kiln.attention: its text and what it refuses. Its derived backward: test/passes/attention.mlir.
// RUN: split-file %s %t
// RUN: kiln-opt %t/text.mlir | kiln-opt | FileCheck %t/text.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file -verify-diagnostics -o /dev/null

//--- text.mlir
// CHECK-LABEL: func.func @plain
func.func @plain(%q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x6x16xf32>) {
  // CHECK: %o, %lse = kiln.attention %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} : (tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x16xf32>) -> (tensor<4x5x16xf32>, tensor<4x5xf32>)
  %0:2 = kiln.attention %q, %k, %v : (tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x16xf32>) -> (tensor<4x5x16xf32>, tensor<4x5xf32>)
  return
}
// Leading dimensions and lengths at run time; a bias of one row for all, a mask of one row a batch.
// CHECK-LABEL: func.func @all
// CHECK-SAME: (%[[Q:.*]]: tensor<?x16x?x64xbf16>, %[[K:.*]]: tensor<?x4x?x64xbf16>, %[[B:.*]]: tensor<1x16x1x?xf32>, %[[M:.*]]: tensor<?x1x1x?xi1>, %[[S:.*]]: tensor<i64>, %[[O:.*]]: tensor<i64>)
func.func @all(%q: tensor<?x16x?x64xbf16>, %k: tensor<?x4x?x64xbf16>, %b: tensor<1x16x1x?xf32>, %m: tensor<?x1x1x?xi1>, %s: tensor<i64>, %off: tensor<i64>) {
  // CHECK: kiln.attention %[[Q]], %[[K]], %[[K]] bias %[[B]] mask %[[M]] dropout %[[S]], %[[O]] p 1.000000e-01 {causal = #kiln.causal<last>, scale = 1.250000e-01 : f32, softcap = 3.000000e+01 : f32, window_left = 128 : i64, window_right = 0 : i64} : (tensor<?x16x?x64xbf16>, tensor<?x4x?x64xbf16>, tensor<?x4x?x64xbf16>, tensor<1x16x1x?xf32>, tensor<?x1x1x?xi1>, tensor<i64>, tensor<i64>) -> (tensor<?x16x?x64xbf16>, tensor<?x16x?xf32>)
  %0:2 = kiln.attention %q, %k, %k bias %b mask %m dropout %s, %off p 0.1 {scale = 0.125 : f32, softcap = 30.0 : f32, causal = #kiln.causal<last>, window_left = 128 : i64, window_right = 0 : i64}
      : (tensor<?x16x?x64xbf16>, tensor<?x4x?x64xbf16>, tensor<?x4x?x64xbf16>, tensor<1x16x1x?xf32>, tensor<?x1x1x?xi1>, tensor<i64>, tensor<i64>) -> (tensor<?x16x?x64xbf16>, tensor<?x16x?xf32>)
  return
}
// CHECK-LABEL: func.func @packed
func.func @packed(%q: tensor<4x?x8xf32>, %k: tensor<1x?x8xf32>, %qs: tensor<?xi32>, %ks: tensor<?xi32>) {
  // CHECK: kiln.attention {{.*}} starts %{{[^ ]*}}, %{{[^ ]*}} {causal = #kiln.causal<first>} : (tensor<4x?x8xf32>, tensor<1x?x8xf32>, tensor<1x?x8xf32>, tensor<?xi32>, tensor<?xi32>) -> (tensor<4x?x8xf16>, tensor<4x?xf32>)
  %0:2 = kiln.attention %q, %k, %k starts %qs, %ks {causal = #kiln.causal<first>} : (tensor<4x?x8xf32>, tensor<1x?x8xf32>, tensor<1x?x8xf32>, tensor<?xi32>, tensor<?xi32>) -> (tensor<4x?x8xf16>, tensor<4x?xf32>)
  return
}
// Defaults are not printed; several leading dimensions.
// CHECK-LABEL: func.func @defaults
func.func @defaults(%q: tensor<?x3x4x5x8xf16>) {
  // CHECK: kiln.attention %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}} : (
  %0:2 = kiln.attention %q, %q, %q {causal = #kiln.causal<none>, window_left = -1 : i64, softcap = 0.0 : f32} : (tensor<?x3x4x5x8xf16>, tensor<?x3x4x5x8xf16>, tensor<?x3x4x5x8xf16>) -> (tensor<?x3x4x5x8xf16>, tensor<?x3x4x5xf32>)
  return
}

//--- errors.mlir
func.func @rank2(%q: tensor<5x8xf32>, %k: tensor<6x8xf32>, %v: tensor<6x16xf32>) {
  // expected-error @+1 {{query, key and value have ranks 2, 2 and 2; give them one rank of at least 3, [..., heads, rows, width]}}
  %o, %lse = kiln.attention %q, %k, %v : (tensor<5x8xf32>, tensor<6x8xf32>, tensor<6x16xf32>) -> (tensor<5x16xf32>, tensor<5xf32>)
  return
}
// -----
func.func @ranks(%q: tensor<2x4x5x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x2x6x16xf32>) {
  // expected-error @+1 {{query, key and value have ranks 4, 3 and 4; give them one rank of at least 3, [..., heads, rows, width]}}
  %o, %lse = kiln.attention %q, %k, %v : (tensor<2x4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x2x6x16xf32>) -> (tensor<2x4x5x16xf32>, tensor<2x4x5xf32>)
  return
}
// -----
func.func @types(%q: tensor<2x4x5x8xbf16>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x16xbf16>) {
  // expected-error @+1 {{query, key and value have elements of types 'bf16', 'f32' and 'bf16'; cast them to one type}}
  %o, %lse = kiln.attention %q, %k, %v : (tensor<2x4x5x8xbf16>, tensor<2x2x6x8xf32>, tensor<2x2x6x16xbf16>) -> (tensor<2x4x5x16xf32>, tensor<2x4x5xf32>)
  return
}
// -----
func.func @leading_key(%q: tensor<2x4x5x8xf32>, %k: tensor<3x2x6x8xf32>, %v: tensor<2x2x6x16xf32>) {
  // expected-error @+1 {{key has the leading dimensions [3], the query [2]; they must agree}}
  %o, %lse = kiln.attention %q, %k, %v : (tensor<2x4x5x8xf32>, tensor<3x2x6x8xf32>, tensor<2x2x6x16xf32>) -> (tensor<2x4x5x16xf32>, tensor<2x4x5xf32>)
  return
}
// -----
func.func @leading_value(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<?x2x6x16xf32>) {
  // expected-error @+1 {{value has the leading dimensions [?], the query [2]; they must agree}}
  %o, %lse = kiln.attention %q, %k, %v : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<?x2x6x16xf32>) -> (tensor<2x4x5x16xf32>, tensor<2x4x5xf32>)
  return
}
// -----
func.func @heads(%q: tensor<2x4x5x8xf32>, %k: tensor<2x3x6x8xf32>, %v: tensor<2x3x6x16xf32>) {
  // expected-error @+1 {{heads of query, key and value are [4, 3, 3]; they must be constants, one number for key and value, and the query's a multiple of it}}
  %o, %lse = kiln.attention %q, %k, %v : (tensor<2x4x5x8xf32>, tensor<2x3x6x8xf32>, tensor<2x3x6x16xf32>) -> (tensor<2x4x5x16xf32>, tensor<2x4x5xf32>)
  return
}
// -----
func.func @heads_of_value(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x4x6x16xf32>) {
  // expected-error @+1 {{heads of query, key and value are [4, 2, 4]; they must be constants}}
  %o, %lse = kiln.attention %q, %k, %v : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x4x6x16xf32>) -> (tensor<2x4x5x16xf32>, tensor<2x4x5xf32>)
  return
}
// -----
func.func @dynamic_heads(%q: tensor<2x?x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x16xf32>) {
  // expected-error @+1 {{heads of query, key and value are [?, 2, 2]; they must be constants}}
  %o, %lse = kiln.attention %q, %k, %v : (tensor<2x?x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x16xf32>) -> (tensor<2x?x5x16xf32>, tensor<2x?x5xf32>)
  return
}
// -----
func.func @no_heads(%q: tensor<2x4x5x8xf32>, %k: tensor<2x0x6x8xf32>, %v: tensor<2x0x6x16xf32>) {
  // expected-error @+1 {{heads of query, key and value are [4, 0, 0]; they must be constants}}
  %o, %lse = kiln.attention %q, %k, %v : (tensor<2x4x5x8xf32>, tensor<2x0x6x8xf32>, tensor<2x0x6x16xf32>) -> (tensor<2x4x5x16xf32>, tensor<2x4x5xf32>)
  return
}
// -----
func.func @rows(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x?x16xf32>) {
  // expected-error @+1 {{key and value have rows [6, ?]; each key has one value}}
  %o, %lse = kiln.attention %q, %k, %v : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x?x16xf32>) -> (tensor<2x4x5x16xf32>, tensor<2x4x5xf32>)
  return
}
// -----
func.func @widths(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x16xf32>, %v: tensor<2x2x6x16xf32>) {
  // expected-error @+1 {{rows of query and key have widths [8, 16]; they must agree}}
  %o, %lse = kiln.attention %q, %k, %v : (tensor<2x4x5x8xf32>, tensor<2x2x6x16xf32>, tensor<2x2x6x16xf32>) -> (tensor<2x4x5x16xf32>, tensor<2x4x5xf32>)
  return
}
// -----
func.func @dynamic_width(%q: tensor<2x4x5x?xf32>, %k: tensor<2x2x6x?xf32>, %v: tensor<2x2x6x16xf32>) {
  // expected-error @+1 {{rows of the query have width [?]; it must be a constant from 1 to 256}}
  %o, %lse = kiln.attention %q, %k, %v : (tensor<2x4x5x?xf32>, tensor<2x2x6x?xf32>, tensor<2x2x6x16xf32>) -> (tensor<2x4x5x16xf32>, tensor<2x4x5xf32>)
  return
}
// -----
func.func @wide(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x257xf32>) {
  // expected-error @+1 {{rows of the value have width [257]; it must be a constant from 1 to 256}}
  %o, %lse = kiln.attention %q, %k, %v : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x257xf32>) -> (tensor<2x4x5x257xf32>, tensor<2x4x5xf32>)
  return
}
// -----
func.func @bias(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x16xf32>, %b: tensor<4x5x6xf32>) {
  // expected-error @+1 {{bias has shape [4, 5, 6], the scores [2, 4, 5, 6]; give it their rank, and in each dimension their size or 1}}
  %o, %lse = kiln.attention %q, %k, %v bias %b : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x16xf32>, tensor<4x5x6xf32>) -> (tensor<2x4x5x16xf32>, tensor<2x4x5xf32>)
  return
}
// -----
func.func @mask(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x16xf32>, %m: tensor<2x2x5x6xi1>) {
  // expected-error @+1 {{mask has shape [2, 2, 5, 6], the scores [2, 4, 5, 6]; give it their rank, and in each dimension their size or 1}}
  %o, %lse = kiln.attention %q, %k, %v mask %m : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x16xf32>, tensor<2x2x5x6xi1>) -> (tensor<2x4x5x16xf32>, tensor<2x4x5xf32>)
  return
}
// -----
func.func @mask_type(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x16xf32>, %m: tensor<2x4x5x6xf32>) {
  // expected-error @+1 {{must be ranked tensor of 1-bit signless integer values, but got 'tensor<2x4x5x6xf32>'}}
  %o, %lse = kiln.attention %q, %k, %v mask %m : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x16xf32>, tensor<2x4x5x6xf32>) -> (tensor<2x4x5x16xf32>, tensor<2x4x5xf32>)
  return
}
// -----
func.func @packed_rank(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x16xf32>, %s: tensor<3xi32>) {
  // expected-error @+1 {{packed sequences in a query of rank 4; they have rank 3, [heads, rows of all sequences, width]}}
  %o, %lse = kiln.attention %q, %k, %v starts %s, %s : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x16xf32>, tensor<3xi32>, tensor<3xi32>) -> (tensor<2x4x5x16xf32>, tensor<2x4x5xf32>)
  return
}
// -----
func.func @starts(%q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x6x16xf32>, %s: tensor<3xi32>, %t: tensor<?xi32>) {
  // expected-error @+1 {{query_starts and key_starts have lengths [3, ?]; both have n + 1 numbers for n sequences, the last where the last one ends}}
  %o, %lse = kiln.attention %q, %k, %v starts %s, %t : (tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x16xf32>, tensor<3xi32>, tensor<?xi32>) -> (tensor<4x5x16xf32>, tensor<4x5xf32>)
  return
}
// -----
func.func @no_sequences(%q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x6x16xf32>, %s: tensor<1xi32>) {
  // expected-error @+1 {{query_starts and key_starts have lengths [1, 1]; both have n + 1 numbers}}
  %o, %lse = kiln.attention %q, %k, %v starts %s, %s : (tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x16xf32>, tensor<1xi32>, tensor<1xi32>) -> (tensor<4x5x16xf32>, tensor<4x5xf32>)
  return
}
// -----
func.func @starts_type(%q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x6x16xf32>, %s: tensor<3xi64>) {
  // expected-error @+1 {{must be 1D tensor of 32-bit signless integer values, but got 'tensor<3xi64>'}}
  %o, %lse = kiln.attention %q, %k, %v starts %s, %s : (tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x16xf32>, tensor<3xi64>, tensor<3xi64>) -> (tensor<4x5x16xf32>, tensor<4x5xf32>)
  return
}
// -----
func.func @probability(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x16xf32>, %s: tensor<i64>) {
  // expected-error @+1 {{p = 1.500000e+00 is no probability; give a number from 0 to 1}}
  %o, %lse = kiln.attention %q, %k, %v dropout %s, %s p 1.5 : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x16xf32>, tensor<i64>, tensor<i64>) -> (tensor<2x4x5x16xf32>, tensor<2x4x5xf32>)
  return
}
// -----
func.func @scale(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x16xf32>) {
  // expected-error @+1 {{scale is INF; it must be finite}}
  %o, %lse = kiln.attention %q, %k, %v {scale = 0x7F800000 : f32} : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x16xf32>) -> (tensor<2x4x5x16xf32>, tensor<2x4x5xf32>)
  return
}
// -----
func.func @softcap(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x16xf32>) {
  // expected-error @+1 {{softcap is -2.000000e+00; it must be positive and at most 1e20, or 0 for none}}
  %o, %lse = kiln.attention %q, %k, %v {softcap = -2.0 : f32} : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x16xf32>) -> (tensor<2x4x5x16xf32>, tensor<2x4x5xf32>)
  return
}
// -----
func.func @left(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x16xf32>) {
  // expected-error @+1 {{window_left is -2; give a number of keys from 0 on, or -1 for all}}
  %o, %lse = kiln.attention %q, %k, %v {window_left = -2 : i64} : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x16xf32>) -> (tensor<2x4x5x16xf32>, tensor<2x4x5xf32>)
  return
}
// -----
func.func @right(%q: tensor<2x4x5x8xf32>, %k: tensor<2x2x6x8xf32>, %v: tensor<2x2x6x16xf32>) {
  // expected-error @+1 {{window_right is -3; give a number of keys from 0 on, or -1 for all}}
  %o, %lse = kiln.attention %q, %k, %v {window_right = -3 : i64} : (tensor<2x4x5x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x16xf32>) -> (tensor<2x4x5x16xf32>, tensor<2x4x5xf32>)
  return
}
// -----
func.func @one_start(%q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>, %s: tensor<3xi32>) {
  // expected-error @+1 {{query_starts without key_starts; packed sequences need both}}
  %o, %lse = "kiln.attention"(%q, %k, %k, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 0, 0, 0>} : (tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x8xf32>, tensor<3xi32>) -> (tensor<4x5x8xf32>, tensor<4x5xf32>)
  return
}
// -----
func.func @other_start(%q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>, %s: tensor<3xi32>) {
  // expected-error @+1 {{key_starts without query_starts; packed sequences need both}}
  %o, %lse = "kiln.attention"(%q, %k, %k, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1, 0, 0>} : (tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x8xf32>, tensor<3xi32>) -> (tensor<4x5x8xf32>, tensor<4x5xf32>)
  return
}
// -----
func.func @seed(%q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>, %s: tensor<i64>) {
  // expected-error @+1 {{seed without offset; dropout needs both}}
  %o, %lse = "kiln.attention"(%q, %k, %k, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 1, 0>, p = 0.5 : f32} : (tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x8xf32>, tensor<i64>) -> (tensor<4x5x8xf32>, tensor<4x5xf32>)
  return
}
// -----
func.func @offset(%q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>, %s: tensor<i64>) {
  // expected-error @+1 {{offset without seed; dropout needs both}}
  %o, %lse = "kiln.attention"(%q, %k, %k, %s) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 1>, p = 0.5 : f32} : (tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x8xf32>, tensor<i64>) -> (tensor<4x5x8xf32>, tensor<4x5xf32>)
  return
}
// -----
func.func @no_seed(%q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>) {
  // expected-error @+1 {{p = 5.000000e-01 without seed and offset; write 'dropout SEED, OFFSET p P'}}
  %o, %lse = "kiln.attention"(%q, %k, %k) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0>, p = 0.5 : f32} : (tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x8xf32>) -> (tensor<4x5x8xf32>, tensor<4x5xf32>)
  return
}
// -----
func.func @output(%q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x6x16xf32>) {
  // expected-error @+1 {{output has shape [4, 5, 8], query and value asks for [4, 5, 16]}}
  %o, %lse = kiln.attention %q, %k, %v : (tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x16xf32>) -> (tensor<4x5x8xf32>, tensor<4x5xf32>)
  return
}
// -----
func.func @lse(%q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>) {
  // expected-error @+1 {{lse has shape [4, 6], the input asks for [4, 5]}}
  %o, %lse = kiln.attention %q, %k, %k : (tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x8xf32>) -> (tensor<4x5x8xf32>, tensor<4x6xf32>)
  return
}
// -----
func.func @lse_type(%q: tensor<4x5x8xbf16>, %k: tensor<2x6x8xbf16>) {
  // expected-error @+1 {{lse has elements of type 'bf16', it is always f32}}
  %o, %lse = kiln.attention %q, %k, %k : (tensor<4x5x8xbf16>, tensor<2x6x8xbf16>, tensor<2x6x8xbf16>) -> (tensor<4x5x8xbf16>, tensor<4x5xbf16>)
  return
}
// -----
func.func @misspelt(%q: tensor<4x5x8xf32>, %k: tensor<2x6x8xf32>) {
  // expected-error @+1 {{unknown attribute 'soft_cap'; the operation has causal, p, scale, softcap, window_left, window_right; did you mean 'softcap'?}}
  %o, %lse = kiln.attention %q, %k, %k {soft_cap = 2.0 : f32} : (tensor<4x5x8xf32>, tensor<2x6x8xf32>, tensor<2x6x8xf32>) -> (tensor<4x5x8xf32>, tensor<4x5xf32>)
  return
}
