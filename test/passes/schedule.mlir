// kiln-schedule: the user's schedule, the one of the text, or the cheapest that fits.
// RUN: split-file %s %t
// RUN: kiln-opt %t/given.mlir --kiln-schedule='schedule="#kiln.schedule<lanes = 4, vector = 2, rows = 2, threads = 128, blocks = 2, grid = resident, keep = shared, launch = plain>"' | FileCheck %t/given.mlir
// RUN: kiln-opt %t/chosen.mlir --kiln-schedule | FileCheck %t/chosen.mlir
// RUN: kiln-opt %t/chosen.mlir --kiln-schedule=arch=sm_86 | FileCheck %t/chosen.mlir --check-prefix=AMPERE
// RUN: not kiln-opt %t/given.mlir --kiln-schedule='schedule=fast' 2>&1 | FileCheck %t/given.mlir --check-prefix=TEXT
// RUN: kiln-opt %t/named.mlir --kiln-schedule='schedule={{kiln_a=#kiln.schedule<lanes=4,vector=2,rows=2,threads=128,blocks=2,grid=one_shot,keep=shared,launch=plain>}}' | FileCheck %t/named.mlir
// RUN: not kiln-opt %t/named.mlir --kiln-schedule='schedule={{kiln_c=#kiln.schedule<lanes=4,vector=2,rows=2,threads=128,blocks=2,grid=one_shot,keep=shared,launch=plain>}}' 2>&1 | FileCheck %t/named.mlir --check-prefix=NAME
// RUN: kiln-opt %t/errors.mlir -split-input-file --kiln-schedule -verify-diagnostics -o /dev/null
// RUN: not kiln-opt %t/chosen.mlir --kiln-schedule=arch=sm_75 2>&1 | FileCheck %t/chosen.mlir --check-prefix=ARCH
// RUN: not kiln-opt %t/none.mlir --kiln-schedule=arch=sm_86 2>&1 | FileCheck %t/none.mlir

//--- given.mlir
// TEXT: given.mlir:[[#]]:{{[0-9]+}}: error: not a schedule: fast; write #kiln.schedule<lanes = 16, vector = 8,
// CHECK-LABEL: func.func @f
func.func @f(%x: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  // CHECK: kiln.kernel "a"(%{{.*}}) schedule(<lanes = 4, vector = 2, rows = 2, threads = 128, blocks = 2, grid = resident, keep = shared, launch = plain>)
  %a = kiln.kernel "a"(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%i: tensor<?x8xf32>):
    %s = math.sin %i : tensor<?x8xf32>
    kiln.yield %s : tensor<?x8xf32>
  }
  // The schedule that the text has stays.
  // CHECK: kiln.kernel "b"(%{{.*}}) schedule(<lanes = 1, vector = 4, rows = 1, threads = 64, blocks = 1, grid = one_shot, keep = registers, launch = plain>)
  %b = kiln.kernel "b"(%a) schedule(#kiln.schedule<lanes = 1, vector = 4, rows = 1, threads = 64, blocks = 1, grid = one_shot, keep = registers, launch = plain>) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%i: tensor<?x8xf32>):
    %s = math.sin %i : tensor<?x8xf32>
    kiln.yield %s : tensor<?x8xf32>
  }
  return %a, %b : tensor<?x8xf32>, tensor<?x8xf32>
}

//--- named.mlir
// By name: a kernel that is left out gets the default; a name of none is an error.
// CHECK: kiln.kernel "a"(%{{.*}}) schedule(<lanes = 4, vector = 2, rows = 2, threads = 128, blocks = 2, grid = one_shot, keep = shared, launch = plain>)
// CHECK: kiln.kernel "b"(%{{.*}}) schedule(<{{.*}}launch = programmatic>)
// NAME: error: a schedule for 'kiln_c', which is no kernel here; kernels with schedules: kiln_a, kiln_b
func.func @f(%x: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %a = kiln.kernel "a"(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%i: tensor<?x8xf32>):
    %s = math.sin %i : tensor<?x8xf32>
    kiln.yield %s : tensor<?x8xf32>
  }
  %b = kiln.kernel "b"(%a) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%i: tensor<?x8xf32>):
    %s = math.sin %i : tensor<?x8xf32>
    kiln.yield %s : tensor<?x8xf32>
  }
  return %a, %b : tensor<?x8xf32>, tensor<?x8xf32>
}

//--- chosen.mlir
// Column sums need a resident grid; programmatic launch needs sm_90.
// CHECK: kiln.kernel "plain"(%{{.*}}) schedule(<{{.*}}grid = one_shot, {{.*}}launch = programmatic>)
// CHECK: kiln.kernel "sums"(%{{.*}}) schedule(<{{.*}}grid = resident, {{.*}}keep = ring, launch = older_first{{.*}}>)
// AMPERE: kiln.kernel "plain"(%{{.*}}) schedule(<{{.*}}launch = plain>)
// ARCH: chosen.mlir:{{[0-9]+}}:{{[0-9]+}}: error: {{.*}}'sm_75'{{.*}}sm_80
module {
  func.func @f(%x: tensor<?x128xf32>) -> (tensor<?x128xf32>, tensor<128xf32>) {
    %a = kiln.kernel "plain"(%x) : (tensor<?x128xf32>) -> tensor<?x128xf32> {
    ^bb0(%i: tensor<?x128xf32>):
      %s = math.sin %i : tensor<?x128xf32>
      kiln.yield %s : tensor<?x128xf32>
    }
    %b = kiln.kernel "sums"(%x) : (tensor<?x128xf32>) -> tensor<128xf32> {
    ^bb0(%i: tensor<?x128xf32>):
      %s = kiln.reduce sum %i dims [0] : tensor<?x128xf32> -> tensor<128xf32>
      kiln.yield %s : tensor<128xf32>
    }
    return %a, %b : tensor<?x128xf32>, tensor<128xf32>
  }
}

//--- errors.mlir
func.func @unfused(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-error @+1 {{stands outside a kernel; run kiln-fuse first}}
  %a = math.sin %x : tensor<?x8xf32>
  return %a : tensor<?x8xf32>
}
// -----
// expected-error @+1 {{result 0 is an argument; results are computed by kernels}}
func.func @argument(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  return %x : tensor<?x8xf32>
}

//--- none.mlir
// Running sums of seven wide rows fit no block of this target: how many schedules fell, and why.
// CHECK: error: no schedule of {{[0-9]+}} fits sm_86:
// CHECK-DAG: {{[0-9]+}} by registers: about {{[0-9]+}} registers a thread needed, {{[0-9]+}} blocks of {{[0-9]+}} threads leave {{[0-9]+}} on sm_86
// CHECK-DAG: {{[0-9]+}} by shared memory: {{[0-9]+}} bytes of shared memory asked, sm_86 allows 101376 a block
module {
  func.func @f(%a: tensor<4x16384xf32>, %b: tensor<4x16384xf32>, %c: tensor<4x16384xf32>, %d: tensor<4x16384xf32>, %e: tensor<4x16384xf32>, %f: tensor<4x16384xf32>, %g: tensor<4x16384xf32>) -> (tensor<16384xf32>, tensor<16384xf32>, tensor<16384xf32>, tensor<16384xf32>, tensor<16384xf32>, tensor<16384xf32>, tensor<16384xf32>) {
    %r:7 = kiln.kernel "wide"(%a, %b, %c, %d, %e, %f, %g) : (tensor<4x16384xf32>, tensor<4x16384xf32>, tensor<4x16384xf32>, tensor<4x16384xf32>, tensor<4x16384xf32>, tensor<4x16384xf32>, tensor<4x16384xf32>) -> (tensor<16384xf32>, tensor<16384xf32>, tensor<16384xf32>, tensor<16384xf32>, tensor<16384xf32>, tensor<16384xf32>, tensor<16384xf32>) {
    ^bb0(%ia: tensor<4x16384xf32>, %ib: tensor<4x16384xf32>, %ic: tensor<4x16384xf32>, %id: tensor<4x16384xf32>, %ie: tensor<4x16384xf32>, %if: tensor<4x16384xf32>, %ig: tensor<4x16384xf32>):
      %sa = kiln.reduce sum %ia dims [0] : tensor<4x16384xf32> -> tensor<16384xf32>
      %sb = kiln.reduce sum %ib dims [0] : tensor<4x16384xf32> -> tensor<16384xf32>
      %sc = kiln.reduce sum %ic dims [0] : tensor<4x16384xf32> -> tensor<16384xf32>
      %sd = kiln.reduce sum %id dims [0] : tensor<4x16384xf32> -> tensor<16384xf32>
      %se = kiln.reduce sum %ie dims [0] : tensor<4x16384xf32> -> tensor<16384xf32>
      %sf = kiln.reduce sum %if dims [0] : tensor<4x16384xf32> -> tensor<16384xf32>
      %sg = kiln.reduce sum %ig dims [0] : tensor<4x16384xf32> -> tensor<16384xf32>
      kiln.yield %sa, %sb, %sc, %sd, %se, %sf, %sg : tensor<16384xf32>, tensor<16384xf32>, tensor<16384xf32>, tensor<16384xf32>, tensor<16384xf32>, tensor<16384xf32>, tensor<16384xf32>
    }
    return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5, %r#6 : tensor<16384xf32>, tensor<16384xf32>, tensor<16384xf32>, tensor<16384xf32>, tensor<16384xf32>, tensor<16384xf32>, tensor<16384xf32>
  }
}
