// What may be loaded before the predecessor has ended: marked arguments of the first kernel; later
// all arguments, and what an earlier kernel than the one before has made.
// RUN: kiln-opt %s --kiln-fuse --kiln-schedule | FileCheck %s
// RUN: kiln-opt %s --kiln-emittable=function=marked -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %s --check-prefix=TEXT
// RUN: kiln-opt %s --kiln-emittable='function=summed schedule="#kiln.schedule<lanes = 16, vector = 4, rows = 2, threads = 128, blocks = 2, grid = resident, keep = ring, launch = programmatic, stages = 2>"' -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %s --check-prefix=SOON

// CHECK-LABEL: func.func @marked
// CHECK: kiln.kernel "marked"{{.*}}launch = older_first
// TEXT: load<{{[0-9]+}}>(at, x_tile, x, rows_64);
// TEXT-NEXT: wait_for_predecessor();
// TEXT-NEXT: release_successor();
// TEXT-NEXT: Registers<Tile, float> g_tile;
func.func @marked(%x: tensor<?x64xf32> {kiln.name = "x", kiln.older}, %g: tensor<?x64xf32> {kiln.name = "g"}) -> (tensor<?x64xf32> {kiln.name = "y"}) {
  %y = arith.mulf %x, %g : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// CHECK-LABEL: func.func @unmarked
// CHECK: kiln.kernel "unmarked"{{.*}}launch = programmatic
func.func @unmarked(%x: tensor<?x64xf32>, %g: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %y = arith.mulf %x, %g : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// The second kernel reads only what the first makes; the third also what the first made.
// CHECK-LABEL: func.func @chain
// CHECK: kiln.kernel "a"{{.*}}launch = programmatic
// CHECK: kiln.kernel "b"{{.*}}launch = programmatic
// CHECK: kiln.kernel "c"{{.*}}launch = older_first
func.func @chain(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %a = kiln.kernel "a"(%x) : (tensor<?x64xf32>) -> tensor<?x64xf32> {
  ^bb0(%i: tensor<?x64xf32>):
    %s = math.sqrt %i : tensor<?x64xf32>
    kiln.yield %s : tensor<?x64xf32>
  }
  %b = kiln.kernel "b"(%a) : (tensor<?x64xf32>) -> tensor<?x64xf32> {
  ^bb0(%i: tensor<?x64xf32>):
    %s = math.sqrt %i : tensor<?x64xf32>
    kiln.yield %s : tensor<?x64xf32>
  }
  %c = kiln.kernel "c"(%a, %b) : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32> {
  ^bb0(%i: tensor<?x64xf32>, %j: tensor<?x64xf32>):
    %s = arith.mulf %i, %j : tensor<?x64xf32>
    kiln.yield %s : tensor<?x64xf32>
  }
  return %c : tensor<?x64xf32>
}

// Of a ring whose inputs nobody knows to be older, the first tiles come to the cache meanwhile.
// SOON: const auto soon = [&](const RingStage& stage) {
// SOON-NEXT: stage.prefetch_tile<64>(x);
// SOON: return ring.move(row_count, soon, older, rest);
func.func @summed(%x: tensor<?x64xf32> {kiln.name = "x"}) -> tensor<64xf32> {
  %sum = kiln.reduce sum %x dims [0] : tensor<?x64xf32> -> tensor<64xf32>
  return %sum : tensor<64xf32>
}
