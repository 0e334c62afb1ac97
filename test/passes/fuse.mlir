// kiln-fuse: what becomes one kernel, what is refused, what is copied.
// RUN: split-file %s %t
// RUN: kiln-opt %t/fused.mlir -split-input-file --kiln-fuse | FileCheck %t/fused.mlir
// RUN: kiln-opt %t/backward.mlir --kiln-differentiate --kiln-fuse | FileCheck %t/backward.mlir
// RUN: kiln-opt %t/refused.mlir -split-input-file --kiln-fuse -verify-diagnostics -o %t/refused.out
// RUN: FileCheck %t/refused.mlir --input-file=%t/refused.out
// RUN: kiln-opt %t/errors.mlir -split-input-file --kiln-fuse -verify-diagnostics -o /dev/null

//--- fused.mlir
// A chain is one kernel with the function's name; nothing between its steps is stored.
// CHECK-LABEL: func.func @chain
// CHECK-NEXT: %[[K:.*]] = kiln.kernel "chain"(%{{.*}}) : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK: math.exp
// CHECK: kiln.softmax
// CHECK: arith.truncf
// CHECK-NOT: kiln.kernel
// CHECK: return %[[K]]
func.func @chain(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %a = math.exp %x : tensor<?x8xf32>
  %b = kiln.softmax %a : tensor<?x8xf32> -> tensor<?x8xf32>
  %c = arith.truncf %b : tensor<?x8xf32> to tensor<?x8xbf16>
  %d = arith.extf %c : tensor<?x8xbf16> to tensor<?x8xf32>
  return %d : tensor<?x8xf32>
}
// -----
// Siblings that read the same tensor are one kernel with two results.
// CHECK-LABEL: func.func @siblings
// CHECK: %[[K:.*]]:2 = kiln.kernel "siblings"(%{{.*}}) : (tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?xf32>)
// CHECK-NOT: kiln.kernel
// CHECK: return %[[K]]#0, %[[K]]#1
func.func @siblings(%x: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?xf32>) {
  %a = math.exp %x : tensor<?x8xf32>
  %b = kiln.reduce max %x dims [1] : tensor<?x8xf32> -> tensor<?xf32>
  return %a, %b : tensor<?x8xf32>, tensor<?xf32>
}
// -----
// What reads nothing in common stays apart; kernels are numbered.
// CHECK-LABEL: func.func @strangers
// CHECK: kiln.kernel "strangers_0"
// CHECK: kiln.kernel "strangers_1"
func.func @strangers(%x: tensor<?x8xf32>, %y: tensor<?x4xf32>) -> (tensor<?x8xf32>, tensor<?x4xf32>) {
  %a = math.exp %x : tensor<?x8xf32>
  %b = math.exp %y : tensor<?x4xf32>
  return %a, %b : tensor<?x8xf32>, tensor<?x4xf32>
}
// -----
// A kernel written by hand stays as it is, between what could have been one kernel without it.
// CHECK-LABEL: func.func @by_hand
// CHECK: %[[A:.*]] = kiln.kernel "by_hand_0"
// CHECK: %[[B:.*]] = kiln.kernel "mine"(%[[A]]
// CHECK-NEXT: ^bb0
// CHECK-NEXT: math.sin
// CHECK-NEXT: kiln.yield
// CHECK: %[[C:.*]] = kiln.kernel "by_hand_1"(%[[B]]
func.func @by_hand(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %a = math.exp %x : tensor<?x8xf32>
  %b = kiln.kernel "mine"(%a) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%i: tensor<?x8xf32>):
    %s = math.sin %i : tensor<?x8xf32>
    kiln.yield %s : tensor<?x8xf32>
  }
  %c = math.cos %b : tensor<?x8xf32>
  return %c : tensor<?x8xf32>
}
// -----
// Constants and broadcasts are copied into every kernel that uses them, also into one written by
// hand; only their sources are inputs.
// CHECK-LABEL: func.func @copied(
// CHECK-SAME: %[[X:.*]]: tensor<?x8xf32>, %[[Y:.*]]: tensor<?x4x8xf32>, %[[G:.*]]: tensor<8xf32>)
// CHECK: kiln.kernel "mine"(%[[Y]], %[[G]]) : (tensor<?x4x8xf32>, tensor<8xf32>)
// CHECK: kiln.kernel "copied_0"(%[[X]], %[[G]]) : (tensor<?x8xf32>, tensor<8xf32>)
func.func @copied(%x: tensor<?x8xf32>, %y: tensor<?x4x8xf32>, %g: tensor<8xf32>) -> (tensor<?x8xf32>, tensor<?x4x8xf32>) {
  %0 = kiln.broadcast %g dims [1] like %x : tensor<8xf32>, tensor<?x8xf32> -> tensor<?x8xf32>
  %1 = kiln.broadcast %g dims [2] like %y : tensor<8xf32>, tensor<?x4x8xf32> -> tensor<?x4x8xf32>
  %a = arith.mulf %x, %0 : tensor<?x8xf32>
  %b = kiln.kernel "mine"(%y, %1) : (tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  ^bb0(%i: tensor<?x4x8xf32>, %j: tensor<?x4x8xf32>):
    %s = arith.mulf %i, %j : tensor<?x4x8xf32>
    kiln.yield %s : tensor<?x4x8xf32>
  }
  return %a, %b : tensor<?x8xf32>, tensor<?x4x8xf32>
}
// -----
// A result that is an argument or a constant is copied by a kernel; what is returned twice is stored
// twice.
// CHECK-LABEL: func.func @returned
// CHECK-DAG: kiln.kernel "returned_copy0"
// CHECK-DAG: kiln.kernel "returned_copy1"
// CHECK-DAG: %[[K:.*]]:2 = kiln.kernel "returned_0"(%{{.*}}) : (tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>)
// CHECK: return %{{.*}}, %{{.*}}, %[[K]]#0, %[[K]]#1
func.func @returned(%x: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<4x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
  %c = arith.constant dense<1.0> : tensor<4x8xf32>
  %a = math.exp %x : tensor<?x8xf32>
  return %x, %c, %a, %a : tensor<?x8xf32>, tensor<4x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}
// -----
// Fusing a and c would leave and come back through the kernel between them.
// CHECK-LABEL: func.func @convex
// CHECK: %[[A:.*]] = kiln.kernel "convex_0"
// CHECK: %[[B:.*]] = kiln.kernel "mine"(%[[A]]
// CHECK: kiln.kernel "convex_1"(
func.func @convex(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %a = math.exp %x : tensor<?x8xf32>
  %b = kiln.kernel "mine"(%a) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%i: tensor<?x8xf32>):
    %s = math.sin %i : tensor<?x8xf32>
    kiln.yield %s : tensor<?x8xf32>
  }
  %c = arith.addf %a, %b : tensor<?x8xf32>
  return %c : tensor<?x8xf32>
}

// -----
// Without a reduction nothing must hold a row: any width is a kernel.
// CHECK-LABEL: func.func @wide_map
// CHECK: kiln.kernel "wide_map"(%{{.*}}) : (tensor<4x262145xf32>) -> tensor<4x262145xf32>
func.func @wide_map(%x: tensor<4x262145xf32>) -> tensor<4x262145xf32> {
  %y = math.exp %x : tensor<4x262145xf32>
  return %y : tensor<4x262145xf32>
}
// -----
// Values of rows alone are a kernel too.
// CHECK-LABEL: func.func @row_values
// CHECK: kiln.kernel "row_values"(%{{.*}}) : (tensor<?xf32>) -> tensor<?xf32>
func.func @row_values(%m: tensor<?xf32>) -> tensor<?xf32> {
  %y = math.rsqrt %m : tensor<?xf32>
  return %y : tensor<?xf32>
}

// -----
// So are their sum and single values; what is summed first comes from an earlier kernel.
// CHECK-LABEL: func.func @mean
// CHECK: %[[SUMS:.*]]:2 = kiln.kernel "mean_0"(%{{.*}}) : (tensor<?xf32>) -> (tensor<f32>, tensor<f32>)
// CHECK: kiln.kernel "mean_1"(%[[SUMS]]#{{[01]}}, %[[SUMS]]#{{[01]}}) : (tensor<f32>, tensor<f32>) -> tensor<f32>
func.func @mean(%m: tensor<?xf32>) -> tensor<f32> {
  %one = arith.constant dense<1.0> : tensor<f32>
  %ones = kiln.broadcast %one dims [] like %m : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
  %sum = kiln.reduce sum %m dims [0] : tensor<?xf32> -> tensor<f32>
  %count = kiln.reduce sum %ones dims [0] : tensor<?xf32> -> tensor<f32>
  %y = arith.divf %sum, %count : tensor<f32>
  return %y : tensor<f32>
}

//--- backward.mlir
// LayerNorm's backward, with dx and both column sums, is one kernel.
// CHECK-LABEL: func.func @layer_norm_backward
// CHECK-NEXT: %[[K:.*]]:3 = kiln.kernel "layer_norm_backward"
// CHECK-NOT: kiln.kernel
// CHECK: return %[[K]]#{{[0-2]}}, %[[K]]#{{[0-2]}}, %[[K]]#{{[0-2]}}
func.func @layer_norm(%x: tensor<?x128xbf16>, %g: tensor<128xf32>, %b: tensor<128xf32>)
    -> (tensor<?x128xbf16>, tensor<?xf32> {kiln.gradient = false}, tensor<?xf32> {kiln.gradient = false}) {
  %y, %m, %r = kiln.layer_norm %x, %g, %b : (tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32>) -> (tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>)
  return %y, %m, %r : tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>
}

//--- refused.mlir
// A column sum is complete only after its kernel.
// CHECK-LABEL: func.func @column
// CHECK: %[[S:.*]] = kiln.kernel "column_0"
// CHECK: kiln.kernel "column_1"(
func.func @column(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-note @+1 {{with this operation}}
  %s = kiln.reduce sum %x dims [0] : tensor<?x8xf32> -> tensor<8xf32>
  %b = kiln.broadcast %s dims [1] like %x : tensor<8xf32>, tensor<?x8xf32> -> tensor<?x8xf32>
  // expected-remark @+1 {{not fused: the sum over leading dimensions at this kernel's input is complete only after the kernel that computes it (would save}}
  %y = arith.subf %x, %b : tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
// -----
// So is the sum of values of rows.
// CHECK-LABEL: func.func @total
// CHECK: %[[S:.*]]:2 = kiln.kernel "total_0"
// CHECK: kiln.kernel "total_1"(
func.func @total(%x: tensor<?x8xf32>) -> tensor<?xf32> {
  %m = kiln.reduce max %x dims [1] : tensor<?x8xf32> -> tensor<?xf32>
  // expected-note @+1 {{with this operation}}
  %s = kiln.reduce sum %m dims [0] : tensor<?xf32> -> tensor<f32>
  %b = kiln.broadcast %s dims [] like %m : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
  // expected-remark @+1 {{not fused: the sum over leading dimensions at this kernel's input is complete only after the kernel that computes it (would save}}
  %y = arith.subf %m, %b : tensor<?xf32>
  return %y : tensor<?xf32>
}
// -----
// One value a row, repeated along the columns of a square: the kernel that takes the maximum of a
// row does not have the others.
// CHECK-LABEL: func.func @square
// CHECK: %[[M:.*]] = kiln.kernel "square_0"
// CHECK: kiln.kernel "square_1"(
func.func @square(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-note @+1 {{with this operation}}
  %m = kiln.reduce max %x dims [1] : tensor<8x8xf32> -> tensor<8xf32>
  %b = kiln.broadcast %m dims [1] : tensor<8xf32> -> tensor<8x8xf32>
  // expected-remark @+1 {{not fused: values of rows are repeated down the columns, which is possible only after the kernel that computes them (would save}}
  %y = arith.subf %x, %b : tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

//--- errors.mlir
func.func @wide(%x: tensor<4x262145xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{rows of 262145 elements; the row family reduces up to 262144}}
  %y = kiln.reduce sum %x dims [1] : tensor<4x262145xf32> -> tensor<4xf32>
  return %y : tensor<4xf32>
}
// -----
func.func @middle(%x: tensor<4x6x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{a result of shape [4, 8] is neither rows nor row values of the space [4, 6, 8]}}
  %y = kiln.reduce max %x dims [1] : tensor<4x6x8xf32> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
// -----
func.func @largest_column(%x: tensor<4x8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{only sums are taken down the columns or over everything}}
  %y = kiln.reduce max %x dims [0] : tensor<4x8xf32> -> tensor<8xf32>
  return %y : tensor<8xf32>
}
// -----
func.func @largest_row_value(%x: tensor<?xf32>) -> tensor<f32> {
  // expected-error @+1 {{only sums are taken down the columns or over everything}}
  %y = kiln.reduce max %x dims [0] : tensor<?xf32> -> tensor<f32>
  return %y : tensor<f32>
}
// -----
func.func @double(%x: tensor<4x8xf64>) -> tensor<4x8xf64> {
  // expected-error @+1 {{fp64 exists in references only; kernels compute in fp32}}
  %y = math.exp %x : tensor<4x8xf64>
  return %y : tensor<4x8xf64>
}
// -----
func.func @table(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  // expected-error @+1 {{a constant with different elements; pass it as an argument}}
  %y = arith.addf %x, %c : tensor<2xf32>
  return %y : tensor<2xf32>
}
// -----
func.func @unknown(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{'math.atan' has no form in this family}}
  %y = math.atan %x : tensor<8xf32>
  return %y : tensor<8xf32>
}
// -----
func.func @dynamic(%x: tensor<4x?xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{the last dimension of [4, ?] is dynamic; kernels are specialised for the row width}}
  %y = kiln.reduce sum %x dims [1] : tensor<4x?xf32> -> tensor<4xf32>
  return %y : tensor<4xf32>
}
