// kiln-lower: one exit operation for each piece of the device library, and the launch plan.
// RUN: split-file %s %t
// RUN: kiln-opt %t/kernel.mlir --kiln-lower | FileCheck %t/kernel.mlir
// RUN: kiln-opt %t/strides.mlir --kiln-lower | FileCheck %t/strides.mlir
// RUN: kiln-opt %t/between.mlir --kiln-lower | FileCheck %t/between.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file --kiln-lower -verify-diagnostics -o /dev/null

//--- kernel.mlir
// The function is gone; the plan names its arguments, the kernels with grids and their arguments.
// CHECK: module attributes {kiln.launch = "{\22function\22:\22f\22
// CHECK-SAME: \22workspaces\22:[{\22name\22:\22kiln_k_partials\22,\22dtype\22:\22f32\22,\22elements\22:68,\22blocksOf\22:0
// CHECK-SAME: \22name\22:\22kiln_k\22,{{.*}}\22threads\22:128
// CHECK-SAME: \22grid\22:\22resident\22,\22rowsPerBlock\22:8,\22blocks\22:2
// CHECK-SAME: \22name\22:\22kiln_k_columns\22,{{.*}}\22grid\22:\22fixed\22,{{.*}}\22blocks\22:3
// CHECK-NOT: func.func
// CHECK: cu.kernel "kiln_k" attributes {arguments = ["x", "y", "kiln_k_partials", "row_count"], blocks = 2 : i64, columns = 64 : i64
// CHECK: %[[MAP:.*]] = cu.row_map sizes [0]() strides [64]() columns 1
// CHECK: cu.wait
// CHECK-NOT: cu.release
// CHECK: %[[COLUMNS:.*]] = cu.column_sums
// CHECK: %[[TOTAL:.*]] = cu.total
// CHECK: cu.tiles %{{.*}} attributes {once = false}
// CHECK: %[[X:.*]] = cu.load %[[AT:.*]], %{{.*}}, %[[MAP]] {access = 4 : i64, keep = #kiln<keep registers>} : <f32> -> <f32>
// CHECK: %[[SUM:.*]] = cu.row_accumulator {kind = #kiln<kind sum>} : <f32>
// CHECK: cu.each %[[AT]], (%[[X]] : !cu.frag<f32>) attributes {{{.*}}guard_rows = true}
// CHECK: cu.accumulate %{{.*}} into %[[SUM]]
// CHECK: cu.accumulate %{{.*}} into %[[COLUMNS]]
// CHECK: cu.accumulate %{{.*}} into %[[TOTAL]]
// CHECK: cu.row_reduce %[[AT]], %[[SUM]] {kind = #kiln<kind sum>}
// CHECK: cu.each %[[AT]], ({{.*}}) attributes {{{.*}}guard_rows = false}
// CHECK: cu.put
// CHECK: cu.release
// CHECK: cu.store_columns %[[COLUMNS]]
// CHECK: cu.store_total %[[TOTAL]]
// CHECK: cu.kernel "kiln_k_columns" attributes {arguments = ["partials", "lines", "columns", "total"], blocks = 1 : i64, threads = 512 : i64}
// CHECK: %[[T:.*]] = cu.sum_partials {{.*}} {stride = 68 : i64, threads = 512 : i64, width = 65 : i64}
// CHECK: cu.finish_columns %[[T]], %{{.*}} {columns = 64 : i64, first = 0 : i64}
// CHECK: cu.finish_columns %[[T]], %{{.*}} {columns = 1 : i64, first = 64 : i64}
func.func @f(%x: tensor<?x64xf32> {kiln.name = "x"}) -> (tensor<?x64xf32> {kiln.name = "y"}, tensor<64xf32> {kiln.name = "columns"}, tensor<f32> {kiln.name = "total"}) {
  %r:3 = kiln.kernel "k"(%x) schedule(#kiln.schedule<lanes = 16, vector = 4, rows = 1, threads = 128, blocks = 2, grid = resident, keep = registers, launch = programmatic>) : (tensor<?x64xf32>) -> (tensor<?x64xf32>, tensor<64xf32>, tensor<f32>) {
  ^bb0(%i: tensor<?x64xf32>):
    %c = kiln.reduce sum %i dims [0] : tensor<?x64xf32> -> tensor<64xf32>
    %t = kiln.reduce sum %i dims [0, 1] : tensor<?x64xf32> -> tensor<f32>
    %s = kiln.reduce sum %i dims [1] : tensor<?x64xf32> -> tensor<?xf32>
    %b = kiln.broadcast %s dims [0] like %i : tensor<?xf32>, tensor<?x64xf32> -> tensor<?x64xf32>
    %y = arith.subf %i, %b : tensor<?x64xf32>
    kiln.yield %y, %c, %t : tensor<?x64xf32>, tensor<64xf32>, tensor<f32>
  }
  return %r#0, %r#1, %r#2 : tensor<?x64xf32>, tensor<64xf32>, tensor<f32>
}

//--- strides.mlir
// Leading dimensions are walked as one where every buffer allows it. x is a view of rows of 64, z
// is repeated over the first dimension, w is strided at run time: three maps of two dimensions.
// 2-byte alignment allows single elements only.
// CHECK-LABEL: cu.kernel "kiln_k"
// CHECK-DAG: %[[X:.*]] = cu.row_map sizes [0, 4]() strides [512, 64]() columns 1
// CHECK-DAG: %[[Z:.*]] = cu.row_map sizes [0, 4]() strides [0, 8]() columns 1
// CHECK-DAG: %[[W:.*]] = cu.row_map sizes [0, 4]() strides [-1, 8](%{{.*}}) columns 1
// CHECK-DAG: %[[Y:.*]] = cu.row_map sizes [0, 4]() strides [32, 8]() columns 1
// CHECK: cu.load %{{.*}}, %{{.*}}, %[[X]] {access = 4 : i64
// CHECK: cu.load %{{.*}}, %{{.*}}, %[[Z]] {access = 1 : i64
// CHECK: cu.load %{{.*}}, %{{.*}}, %[[W]] {access = 1 : i64
// CHECK: cu.put %{{.*}}, %{{.*}}, %[[Y]] {access = 4 : i64}
func.func @f(%x: tensor<?x4x8xf32> {kiln.name = "x", kiln.layout = #kiln.layout<strides = [512, 64, 1]>},
             %z: tensor<?x4x8xbf16> {kiln.name = "z", kiln.layout = #kiln.layout<strides = [0, 8, 1], align = 2>},
             %w: tensor<?x4x8xf32> {kiln.name = "w", kiln.layout = #kiln.layout<strides = [-1, 8, 1]>}) -> (tensor<?x4x8xf32> {kiln.name = "y"}) {
  %r = kiln.kernel "k"(%x, %z, %w) schedule(#kiln.schedule<lanes = 2, vector = 4, rows = 1, threads = 128, blocks = 2, grid = one_shot, keep = registers, launch = plain>) : (tensor<?x4x8xf32>, tensor<?x4x8xbf16>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  ^bb0(%i: tensor<?x4x8xf32>, %j: tensor<?x4x8xbf16>, %k: tensor<?x4x8xf32>):
    %0 = arith.extf %j : tensor<?x4x8xbf16> to tensor<?x4x8xf32>
    %1 = arith.addf %i, %0 : tensor<?x4x8xf32>
    %2 = arith.addf %1, %k : tensor<?x4x8xf32>
    kiln.yield %2 : tensor<?x4x8xf32>
  }
  return %r : tensor<?x4x8xf32>
}

//--- between.mlir
// What one kernel hands to another is a workspace of the plan.
// CHECK: \22workspaces\22:[{\22name\22:\22between0\22,\22dtype\22:\22bf16\22,\22elements\22:1,
// CHECK: cu.kernel "kiln_a" attributes {arguments = ["x", "between0", "row_count"]
// CHECK: cu.kernel "kiln_b" attributes {arguments = ["between0", "y", "row_count"]
func.func @f(%x: tensor<?x8xbf16> {kiln.name = "x"}) -> (tensor<?x8xbf16> {kiln.name = "y"}) {
  %a = kiln.kernel "a"(%x) schedule(#kiln.schedule<lanes = 2, vector = 4, rows = 1, threads = 128, blocks = 2, grid = one_shot, keep = registers, launch = plain>) : (tensor<?x8xbf16>) -> tensor<?x8xbf16> {
  ^bb0(%i: tensor<?x8xbf16>):
    %0 = math.sin %i : tensor<?x8xbf16>
    kiln.yield %0 : tensor<?x8xbf16>
  }
  %b = kiln.kernel "b"(%a) schedule(#kiln.schedule<lanes = 2, vector = 4, rows = 1, threads = 128, blocks = 2, grid = one_shot, keep = registers, launch = plain>) : (tensor<?x8xbf16>) -> tensor<?x8xbf16> {
  ^bb0(%i: tensor<?x8xbf16>):
    %0 = math.cos %i : tensor<?x8xbf16>
    kiln.yield %0 : tensor<?x8xbf16>
  }
  return %b : tensor<?x8xbf16>
}

//--- errors.mlir
func.func @missing(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-error @+1 {{has no schedule; run kiln-schedule first}}
  %a = kiln.kernel "a"(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%i: tensor<?x8xf32>):
    %s = math.sin %i : tensor<?x8xf32>
    kiln.yield %s : tensor<?x8xf32>
  }
  return %a : tensor<?x8xf32>
}
// -----
func.func @inside(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-note @+1 {{in kernel 'a'}}
  %a = kiln.kernel "a"(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%i: tensor<?x8xf32>):
    // expected-error @+1 {{'math.atan' has no form in this family}}
    %s = math.atan %i : tensor<?x8xf32>
    kiln.yield %s : tensor<?x8xf32>
  }
  return %a : tensor<?x8xf32>
}
// -----
// expected-error @+1 {{result 1 is the same value as result 0; return it once}}
func.func @twice(%x: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %a = kiln.kernel "a"(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%i: tensor<?x8xf32>):
    %s = math.sin %i : tensor<?x8xf32>
    kiln.yield %s : tensor<?x8xf32>
  }
  return %a, %a : tensor<?x8xf32>, tensor<?x8xf32>
}
// -----
// expected-error @+1 {{'external' is declared only; give it a body}}
func.func private @external(%x: tensor<?x8xf32>)
// -----
// What no entry point can be called becomes '_': two names may become one.
// expected-error @+1 {{two of its kernels would be called 'kiln_a_b'; rename one}}
func.func @names(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
  %a = kiln.kernel "a-b"(%x) schedule(#kiln.schedule<lanes = 2, vector = 4, rows = 1, threads = 128, blocks = 2, grid = one_shot, keep = registers, launch = plain>) : (tensor<?x8xbf16>) -> tensor<?x8xbf16> {
  ^bb0(%i: tensor<?x8xbf16>):
    %0 = math.sin %i : tensor<?x8xbf16>
    kiln.yield %0 : tensor<?x8xbf16>
  }
  %b = kiln.kernel "a+b"(%a) schedule(#kiln.schedule<lanes = 2, vector = 4, rows = 1, threads = 128, blocks = 2, grid = one_shot, keep = registers, launch = plain>) : (tensor<?x8xbf16>) -> tensor<?x8xbf16> {
  ^bb0(%i: tensor<?x8xbf16>):
    %0 = math.cos %i : tensor<?x8xbf16>
    kiln.yield %0 : tensor<?x8xbf16>
  }
  return %b : tensor<?x8xbf16>
}
