// kiln.kernel and kiln.yield: their text, what they refuse, and why they have no backward.
// RUN: split-file %s %t
// RUN: kiln-opt %t/text.mlir | kiln-opt | FileCheck %t/text.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/backward.mlir --kiln-differentiate -verify-diagnostics
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir

//--- text.mlir
// CHECK-LABEL: func.func @f
func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // CHECK: kiln.kernel "twice"(%{{.*}}) schedule(<lanes = 2, vector = 4, rows = 1, threads = 128, blocks = 8, grid = one_shot, keep = registers, launch = plain>) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
  // CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<?x8xf32>):
  %y = kiln.kernel "twice"(%x) schedule(#kiln.schedule<lanes = 2, vector = 4, rows = 1, threads = 128, blocks = 8, grid = one_shot, keep = registers, launch = plain>) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%a: tensor<?x8xf32>):
    %b = arith.addf %a, %a : tensor<?x8xf32>
    // CHECK: kiln.yield %{{.*}} : tensor<?x8xf32>
    kiln.yield %b : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}

//--- errors.mlir
func.func @name(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{has an empty name; it becomes the kernel's entry point}}
  %y = kiln.kernel ""(%x) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    kiln.yield %a : tensor<8xf32>
  }
  return %y : tensor<8xf32>
}
// -----
func.func @arguments(%x: tensor<8xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{the region's arguments do not have the types of the inputs}}
  %y = kiln.kernel "k"(%x) : (tensor<8xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    kiln.yield %a : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}
// -----
func.func @results(%x: tensor<8xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{the yielded values do not have the types of the results}}
  %y = kiln.kernel "k"(%x) : (tensor<8xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<8xf32>):
    kiln.yield %a : tensor<8xf32>
  }
  return %y : tensor<4xf32>
}
// -----
func.func @outside(%x: tensor<8xf32>) {
  // expected-error @+1 {{expects parent op 'kiln.kernel'}}
  kiln.yield %x : tensor<8xf32>
}
// -----
// The region sees nothing but the inputs.
func.func @isolated(%x: tensor<8xf32>, %z: tensor<8xf32>) -> tensor<8xf32> { // expected-note @+1 {{required by region isolation constraints}}
  %y = kiln.kernel "k"(%x) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    // expected-error @+1 {{using value defined outside the region}}
    %b = arith.addf %a, %z : tensor<8xf32>
    kiln.yield %b : tensor<8xf32>
  }
  return %y : tensor<8xf32>
}

//--- backward.mlir
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{has no gradient; differentiate before fusing (kiln-differentiate runs ahead of kiln-fuse)}}
  %y = kiln.kernel "k"(%x) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    kiln.yield %a : tensor<8xf32>
  }
  return %y : tensor<8xf32>
}

//--- kernel.mlir
// The name becomes the entry point, made a C++ word; the schedule of the text stays.
// CHECK: // kiln_my_twice: #kiln.schedule<lanes = 2, vector = 4, rows = 1, threads = 128, blocks = 8, grid = one_shot, keep = registers, launch = plain>
// CHECK: KILN_KERNEL(128, 8)
// CHECK-NEXT: kiln_my_twice(const float* x, float* y, i64 row_count) {
// CHECK-NEXT: using Tile = RowTile<8 /*columns*/, 2 /*lanes*/, 4 /*vector*/, 1 /*rows*/, 128 /*threads*/>;
// CHECK-NOT: wait_for_predecessor
// CHECK: y_c[i] = x_tile_c[i] + x_tile_c[i];
func.func @f(%x: tensor<?x8xf32> {kiln.name = "x"}) -> (tensor<?x8xf32> {kiln.name = "y"}) {
  %y = kiln.kernel "my-twice"(%x) schedule(#kiln.schedule<lanes = 2, vector = 4, rows = 1, threads = 128, blocks = 8, grid = one_shot, keep = registers, launch = plain>) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%a: tensor<?x8xf32>):
    %b = arith.addf %a, %a : tensor<?x8xf32>
    kiln.yield %b : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}
