// kiln-prepare: equal operations are merged, placing goes into the launch plan.
// RUN: kiln-opt %s --kiln-lower --kiln-place --kiln-prepare | FileCheck %s
// RUN: not kiln-opt %s --kiln-prepare 2>&1 | FileCheck %s --check-prefix=EARLY
// RUN: not kiln-translate %s --kiln-to-cuda 2>&1 | FileCheck %s --check-prefix=PRINT

// EARLY: prepare.mlir:[[#]]:1: error: has no launch plan ('kiln.launch'); run kiln-lower first
// PRINT: error: has no launch plan ('kiln.launch'); run kiln-lower first
// CHECK: \22sharedBytes\22:16,
// CHECK: cu.kernel "kiln_k" {{.*}}shared_bytes = 16 : i64
// CHECK-COUNT-1: arith.constant 2.560000e+02 : f32
// CHECK: cu.barrier
module {
  func.func @f(%x: tensor<?x256xf32>) -> tensor<?x256xf32> {
    %r = kiln.kernel "k"(%x) schedule(#kiln.schedule<lanes = 64, vector = 4, rows = 1, threads = 64, blocks = 2, grid = resident, keep = registers, launch = plain>) : (tensor<?x256xf32>) -> tensor<?x256xf32> {
    ^bb0(%i: tensor<?x256xf32>):
      %s = kiln.reduce mean %i dims [1] : tensor<?x256xf32> -> tensor<?xf32>
      %b = kiln.broadcast %s dims [0] like %i : tensor<?xf32>, tensor<?x256xf32> -> tensor<?x256xf32>
      %y = arith.subf %i, %b : tensor<?x256xf32>
      kiln.yield %y : tensor<?x256xf32>
    }
    return %r : tensor<?x256xf32>
  }
}
