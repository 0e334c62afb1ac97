// kiln-place: offsets in shared memory without overlap, and the one barrier that is needed.
// RUN: split-file %s %t
// RUN: kiln-opt %t/lone.mlir --kiln-lower --kiln-place | FileCheck %t/lone.mlir
// RUN: kiln-opt %t/two.mlir --kiln-lower --kiln-place | FileCheck %t/two.mlir
// RUN: kiln-opt %t/once.mlir --kiln-lower --kiln-place | FileCheck %t/once.mlir
// RUN: kiln-opt %t/sums.mlir --kiln-lower --kiln-place | FileCheck %t/sums.mlir
// RUN: kiln-opt %t/lone.mlir --kiln-lower | not kiln-translate --kiln-to-cuda 2>&1 | FileCheck %s --check-prefix=UNPLACED
// UNPLACED: error: 'cu.row_reduce' op has no place in shared memory for an exchange between warps of 8 bytes; run kiln-place first

//--- lone.mlir
// The next tile's exchange would overwrite what a slow warp still reads: a barrier at the end.
// Without shared rows the exchange of 2 warps begins at 0.
// CHECK: cu.kernel "kiln_k" {{.*}}shared_bytes = 16 : i64
// CHECK: cu.row_reduce {{.*}}kind = #kiln<kind sum>
// CHECK: cu.put
// CHECK: cu.barrier
func.func @f(%x: tensor<?x256xf32>) -> tensor<?x256xf32> {
  %r = kiln.kernel "k"(%x) schedule(#kiln.schedule<lanes = 64, vector = 4, rows = 1, threads = 64, blocks = 2, grid = resident, keep = registers, launch = plain>) : (tensor<?x256xf32>) -> tensor<?x256xf32> {
  ^bb0(%i: tensor<?x256xf32>):
    %s = kiln.reduce sum %i dims [1] : tensor<?x256xf32> -> tensor<?xf32>
    %b = kiln.broadcast %s dims [0] like %i : tensor<?xf32>, tensor<?x256xf32> -> tensor<?x256xf32>
    %y = arith.subf %i, %b : tensor<?x256xf32>
    kiln.yield %y : tensor<?x256xf32>
  }
  return %r : tensor<?x256xf32>
}

//--- two.mlir
// Two exchanges have scratch of their own and protect each other: no barrier. The rows kept in
// shared memory come first: 4 columns of 4 bytes for each
// of 128 threads, and the values of erf behind them; then 4 warps' values for each exchange.
// CHECK: cu.kernel "kiln_k" {{.*}}shared_bytes = 4128 : i64
// CHECK: cu.load {{.*}}keep = #kiln<keep shared>, scratch = 0 : i64}
// CHECK: cu.row_reduce {{.*}}kind = #kiln<kind max>, scratch = 4096 : i64
// CHECK: cu.keep {keep = #kiln<keep shared>, scratch = 2048 : i64}
// CHECK: cu.row_reduce {{.*}}kind = #kiln<kind sum>, scratch = 4112 : i64
// CHECK-NOT: cu.barrier
func.func @f(%x: tensor<?x256xf32>) -> tensor<?x256xf32> {
  %r = kiln.kernel "k"(%x) schedule(#kiln.schedule<lanes = 64, vector = 4, rows = 1, threads = 128, blocks = 2, grid = resident, keep = shared, launch = plain>) : (tensor<?x256xf32>) -> tensor<?x256xf32> {
  ^bb0(%i: tensor<?x256xf32>):
    %m = kiln.reduce max %i dims [1] : tensor<?x256xf32> -> tensor<?xf32>
    %b = kiln.broadcast %m dims [0] like %i : tensor<?xf32>, tensor<?x256xf32> -> tensor<?x256xf32>
    %d = arith.subf %i, %b : tensor<?x256xf32>
    %e = math.erf %d : tensor<?x256xf32>
    %s = kiln.reduce sum %e dims [1] : tensor<?x256xf32> -> tensor<?xf32>
    %t = kiln.broadcast %s dims [0] like %i : tensor<?xf32>, tensor<?x256xf32> -> tensor<?x256xf32>
    %y = arith.divf %e, %t : tensor<?x256xf32>
    kiln.yield %y : tensor<?x256xf32>
  }
  return %r : tensor<?x256xf32>
}

//--- once.mlir
// One tile a block: nothing comes after the exchange. Rows within a warp need no memory at all.
// CHECK: cu.kernel "kiln_across" {{.*}}shared_bytes = 16 : i64
// CHECK-NOT: cu.barrier
// CHECK: cu.kernel "kiln_within"
// CHECK-NOT: shared_bytes
// CHECK-NOT: cu.barrier
func.func @f(%x: tensor<?x256xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %a = kiln.kernel "across"(%x) schedule(#kiln.schedule<lanes = 64, vector = 4, rows = 1, threads = 64, blocks = 2, grid = one_shot, keep = registers, launch = plain>) : (tensor<?x256xf32>) -> tensor<?xf32> {
  ^bb0(%i: tensor<?x256xf32>):
    %s = kiln.reduce sum %i dims [1] : tensor<?x256xf32> -> tensor<?xf32>
    kiln.yield %s : tensor<?xf32>
  }
  %b = kiln.kernel "within"(%x) schedule(#kiln.schedule<lanes = 32, vector = 4, rows = 1, threads = 64, blocks = 2, grid = resident, keep = registers, launch = plain>) : (tensor<?x256xf32>) -> tensor<?xf32> {
  ^bb0(%i: tensor<?x256xf32>):
    %s = kiln.reduce max %i dims [1] : tensor<?x256xf32> -> tensor<?xf32>
    kiln.yield %s : tensor<?xf32>
  }
  return %a, %b : tensor<?xf32>, tensor<?xf32>
}

//--- sums.mlir
// Column sums reuse the memory of the tiles: 4 warps of 64 columns are more than the rest.
// CHECK: cu.kernel "kiln_k" {{.*}}shared_bytes = 1024 : i64
// CHECK: cu.store_columns
// CHECK: cu.kernel "kiln_k_columns" {{.*}}shared_bytes = 2048 : i64
func.func @f(%x: tensor<?x64xf32>) -> tensor<64xf32> {
  %r = kiln.kernel "k"(%x) schedule(#kiln.schedule<lanes = 16, vector = 4, rows = 1, threads = 128, blocks = 2, grid = resident, keep = registers, launch = plain>) : (tensor<?x64xf32>) -> tensor<64xf32> {
  ^bb0(%i: tensor<?x64xf32>):
    %c = kiln.reduce sum %i dims [0] : tensor<?x64xf32> -> tensor<64xf32>
    kiln.yield %c : tensor<64xf32>
  }
  return %r : tensor<64xf32>
}
