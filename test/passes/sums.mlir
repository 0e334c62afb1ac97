// Sums over some of the leading dimensions: kernels of their own, cut by a rule.
// RUN: split-file %s %t
// RUN: kiln-opt %t/fuse.mlir --kiln-canonicalize --kiln-fuse 2>/dev/null | FileCheck %t/fuse.mlir
// RUN: kiln-opt %t/refused.mlir -split-input-file --kiln-schedule -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir
// RUN: kiln-opt %t/kernel.mlir --kiln-emittable=arch=sm_80 -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/kernel.mlir --check-prefix=AMPERE

//--- fuse.mlir
// What is summed is written to memory; the sum widens and rounds by itself.
// CHECK-LABEL: func.func @cut
// CHECK: %[[A:.*]] = kiln.kernel "cut_0"(%{{.*}}) : (tensor<?x6x8xf32>) -> tensor<?x6x8xbf16>
// CHECK: kiln.kernel "cut_1"(%[[A]]) : (tensor<?x6x8xbf16>) -> tensor<?x8xbf16>
// CHECK: arith.extf
// CHECK-NEXT: kiln.reduce sum %{{.*}} dims [1]
// CHECK-NEXT: arith.truncf
// CHECK-NEXT: kiln.yield
func.func @cut(%x: tensor<?x6x8xf32>) -> tensor<?x8xbf16> {
  %e = math.exp %x : tensor<?x6x8xf32>
  %n = arith.truncf %e : tensor<?x6x8xf32> to tensor<?x6x8xbf16>
  %w = arith.extf %n : tensor<?x6x8xbf16> to tensor<?x6x8xf32>
  %s = kiln.reduce sum %w dims [1] : tensor<?x6x8xf32> -> tensor<?x8xf32>
  %y = arith.truncf %s : tensor<?x8xf32> to tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// Over the last dimension and another: the last first, with what computes it.
// CHECK-LABEL: func.func @mixed
// CHECK: %[[R:.*]] = kiln.kernel "mixed_0"(%{{.*}}) : (tensor<4x6x8xf32>) -> tensor<4x6xf32>
// CHECK: math.exp
// CHECK: kiln.reduce sum %{{.*}} dims [2]
// CHECK: kiln.kernel "mixed_1"(%[[R]]) : (tensor<4x6xf32>) -> tensor<6xf32>
// CHECK: kiln.reduce sum %{{.*}} dims [0]
func.func @mixed(%x: tensor<4x6x8xf32>) -> tensor<6xf32> {
  %e = math.exp %x : tensor<4x6x8xf32>
  %s = kiln.reduce sum %e dims [0, 2] : tensor<4x6x8xf32> -> tensor<6xf32>
  return %s : tensor<6xf32>
}

// What is repeated is written out before it is summed.
// CHECK-LABEL: func.func @repeated
// CHECK: %[[C:.*]] = kiln.kernel "repeated_summed0"(%{{.*}}) : (tensor<8xf32>) -> tensor<4x6x8xf32>
// CHECK: kiln.kernel "repeated_0"(%[[C]])
func.func @repeated(%x: tensor<8xf32>) -> tensor<4x8xf32> {
  %b = kiln.broadcast %x dims [2] : tensor<8xf32> -> tensor<4x6x8xf32>
  %s = kiln.reduce sum %b dims [1] : tensor<4x6x8xf32> -> tensor<4x8xf32>
  return %s : tensor<4x8xf32>
}

// The first operation, the sums and the last are a circle if the first and the last are one kernel:
// they meet only through broadcasts. Both compute it, each for itself.
// CHECK-LABEL: func.func @circle
// CHECK-COUNT-3: kiln.kernel "
// CHECK-NOT: kiln.kernel "
func.func @circle(%x: tensor<?x6x8xf32>, %g: tensor<?x1x8xf32>) -> (tensor<?x6x8xf32>, tensor<?x1x8xf32>) {
  %h = math.exp %g : tensor<?x1x8xf32>
  %b = kiln.broadcast %h dims [0, 1, 2] like %x : tensor<?x1x8xf32>, tensor<?x6x8xf32> -> tensor<?x6x8xf32>
  %y = arith.mulf %x, %b : tensor<?x6x8xf32>
  %s = kiln.reduce sum %y dims [1] : tensor<?x6x8xf32> -> tensor<?x8xf32>
  %c = kiln.broadcast %s dims [0, 2] like %h : tensor<?x8xf32>, tensor<?x1x8xf32> -> tensor<?x1x8xf32>
  %d = arith.addf %h, %c : tensor<?x1x8xf32>
  return %y, %d : tensor<?x6x8xf32>, tensor<?x1x8xf32>
}

// Columns too many for running sums: a kernel of their own, like what they sum.
// CHECK-LABEL: func.func @wide
// CHECK: %[[P:.*]] = kiln.kernel "wide_0"(%{{.*}}, %{{.*}}) : (tensor<?x65536xf32>, tensor<?x65536xf32>) -> tensor<?x65536xf32>
// CHECK: kiln.kernel "wide_1"(%[[P]]) : (tensor<?x65536xf32>) -> tensor<65536xf32>
func.func @wide(%x: tensor<?x65536xf32>, %y: tensor<?x65536xf32>) -> tensor<65536xf32> {
  %p = arith.mulf %x, %y : tensor<?x65536xf32>
  %s = kiln.reduce sum %p dims [0] : tensor<?x65536xf32> -> tensor<65536xf32>
  return %s : tensor<65536xf32>
}

// Of two such sums of narrower rows one stays with what computes the rows.
// CHECK-LABEL: func.func @halves
// CHECK: kiln.kernel "halves_0"(%{{.*}}, %{{.*}}) : (tensor<?x32768xf32>, tensor<?x32768xf32>) -> {{.*}}tensor<32768xf32>
// CHECK: kiln.kernel "halves_1"(%{{.*}}) : (tensor<?x32768xf32>) -> tensor<32768xf32>
func.func @halves(%x: tensor<?x32768xf32>, %y: tensor<?x32768xf32>) -> (tensor<32768xf32>, tensor<32768xf32>) {
  %p = arith.mulf %x, %y : tensor<?x32768xf32>
  %s = kiln.reduce sum %p dims [0] : tensor<?x32768xf32> -> tensor<32768xf32>
  %t = kiln.reduce sum %x dims [0] : tensor<?x32768xf32> -> tensor<32768xf32>
  return %s, %t : tensor<32768xf32>, tensor<32768xf32>
}

//--- refused.mlir
func.func @schedule(%x: tensor<4x6x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{a sum of rows takes no schedule; leave it out}}
  %y = kiln.kernel "k"(%x) schedule(#kiln.schedule<lanes = 8, vector = 1, rows = 1, threads = 32, blocks = 1, grid = one_shot, keep = registers, launch = plain>) : (tensor<4x6x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: tensor<4x6x8xf32>):
    %s = kiln.reduce sum %a dims [1] : tensor<4x6x8xf32> -> tensor<4x8xf32>
    kiln.yield %s : tensor<4x8xf32>
  }
  return %y : tensor<4x8xf32>
}

// -----

// Registers keep so many running sums and no more.
func.func @running(%x: tensor<4x32768xf32>, %y: tensor<4x32768xf32>) -> (tensor<32768xf32>, tensor<32768xf32>) {
  // expected-note @+1 {{in kernel 'k'}}
  %r:2 = kiln.kernel "k"(%x, %y) : (tensor<4x32768xf32>, tensor<4x32768xf32>) -> (tensor<32768xf32>, tensor<32768xf32>) {
  ^bb0(%a: tensor<4x32768xf32>, %b: tensor<4x32768xf32>):
    %s = kiln.reduce sum %a dims [0] : tensor<4x32768xf32> -> tensor<32768xf32>
    // expected-error @+1 {{running sums of 65536 columns; a kernel has registers for 45056}}
    %t = kiln.reduce sum %b dims [0] : tensor<4x32768xf32> -> tensor<32768xf32>
    kiln.yield %s, %t : tensor<32768xf32>, tensor<32768xf32>
  }
  return %r#0, %r#1 : tensor<32768xf32>, tensor<32768xf32>
}

//--- kernel.mlir
// Few terms: a group of threads for each row. Few rows with many terms: parts, and their sum.
// CHECK-LABEL: kiln_few(const float* x, float* s0, i64 unit_count)
// CHECK: const StridedTerms terms{rows_48, rows_8, 6ll};
// CHECK-NEXT: wait_for_predecessor();
// CHECK: SumTile<8 /*columns*/, 2 /*lanes*/, 4 /*vector*/, 128 /*units*/, 1 /*parts*/,
// CHECK: sum_rows<4>(Tile(), shared_memory() + 0, x, terms, s0, rows_8, unit_count);
// CHECK-LABEL: kiln_many_parts(const bf16* z, float* kiln_many_partials)
// CHECK: SumTile<64 /*columns*/, 8 /*lanes*/, 8 /*vector*/, 1 /*units*/, 46 /*parts*/,
// CHECK-LABEL: kiln_many(const float* kiln_many_partials, bf16* s1)
// CHECK: StridedTerms terms{rows_2944, rows_64, 46ll};
// CHECK: SumTile<64 /*columns*/, 16 /*lanes*/, 4 /*vector*/, 1 /*units*/, 1 /*parts*/,
// AMPERE-NOT: wait_for_predecessor
func.func @sums(%x: tensor<?x6x8xf32> {kiln.name = "x"}, %z: tensor<2x3000x64xbf16> {kiln.name = "z"})
    -> (tensor<?x8xf32> {kiln.name = "s0"}, tensor<2x64xbf16> {kiln.name = "s1"}) {
  %0 = kiln.kernel "few"(%x) : (tensor<?x6x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%a: tensor<?x6x8xf32>):
    %s = kiln.reduce sum %a dims [1] : tensor<?x6x8xf32> -> tensor<?x8xf32>
    kiln.yield %s : tensor<?x8xf32>
  }
  %1 = kiln.kernel "many"(%z) : (tensor<2x3000x64xbf16>) -> tensor<2x64xbf16> {
  ^bb0(%a: tensor<2x3000x64xbf16>):
    %s = kiln.reduce sum %a dims [1] : tensor<2x3000x64xbf16> -> tensor<2x64xbf16>
    kiln.yield %s : tensor<2x64xbf16>
  }
  return %0, %1 : tensor<?x8xf32>, tensor<2x64xbf16>
}
