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
// RUN: kiln-opt %t/sized.mlir --kiln-fuse --kiln-schedule | FileCheck %t/sized.mlir
// RUN: kiln-opt %t/sized.mlir --kiln-fuse --kiln-schedule=sizes=1024 | FileCheck %t/sized.mlir
// RUN: kiln-opt %t/sized.mlir --kiln-fuse --kiln-schedule=sizes=65536,1,40 | FileCheck %t/sized.mlir --check-prefix=SHORT
// RUN: kiln-opt %t/sized.mlir --kiln-fuse --kiln-schedule=sizes=65536,1,4 | FileCheck %t/sized.mlir --check-prefix=FEW

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
// Running sums beside a row of very many inputs fit no block of this target: how many schedules
// fell, and why.
// CHECK: error: no schedule of {{[0-9]+}} fits sm_86:
// CHECK-DAG: {{[0-9]+}} by registers: about {{[0-9]+}} registers a thread needed, {{[0-9]+}} blocks of {{[0-9]+}} threads leave {{[0-9]+}} on sm_86
// CHECK-DAG: {{[0-9]+}} by shared memory: {{[0-9]+}} bytes of shared memory asked, sm_86 allows 101376 a block
!rows = tensor<4x32768xf32>
!sums = tensor<32768xf32>
module {
  func.func @f(%x0: !rows, %x1: !rows, %x2: !rows, %x3: !rows, %x4: !rows, %x5: !rows, %x6: !rows, %x7: !rows, %x8: !rows, %x9: !rows, %x10: !rows, %x11: !rows, %x12: !rows, %x13: !rows, %x14: !rows, %x15: !rows, %x16: !rows, %x17: !rows, %x18: !rows, %x19: !rows, %x20: !rows, %x21: !rows, %x22: !rows, %x23: !rows, %x24: !rows, %x25: !rows, %x26: !rows, %x27: !rows, %x28: !rows, %x29: !rows, %x30: !rows, %x31: !rows, %x32: !rows, %x33: !rows, %x34: !rows, %x35: !rows, %x36: !rows, %x37: !rows, %x38: !rows, %x39: !rows, %x40: !rows, %x41: !rows, %x42: !rows, %x43: !rows, %x44: !rows, %x45: !rows, %x46: !rows, %x47: !rows, %x48: !rows, %x49: !rows, %x50: !rows, %x51: !rows, %x52: !rows, %x53: !rows, %x54: !rows, %x55: !rows, %x56: !rows, %x57: !rows, %x58: !rows, %x59: !rows, %x60: !rows, %x61: !rows, %x62: !rows, %x63: !rows, %x64: !rows, %x65: !rows, %x66: !rows, %x67: !rows, %x68: !rows, %x69: !rows, %x70: !rows, %x71: !rows, %x72: !rows, %x73: !rows, %x74: !rows, %x75: !rows, %x76: !rows, %x77: !rows, %x78: !rows, %x79: !rows, %x80: !rows, %x81: !rows, %x82: !rows, %x83: !rows, %x84: !rows, %x85: !rows, %x86: !rows, %x87: !rows, %x88: !rows, %x89: !rows, %x90: !rows, %x91: !rows, %x92: !rows, %x93: !rows, %x94: !rows, %x95: !rows, %x96: !rows, %x97: !rows, %x98: !rows, %x99: !rows, %x100: !rows, %x101: !rows, %x102: !rows, %x103: !rows, %x104: !rows, %x105: !rows, %x106: !rows, %x107: !rows, %x108: !rows, %x109: !rows, %x110: !rows, %x111: !rows, %x112: !rows, %x113: !rows, %x114: !rows, %x115: !rows, %x116: !rows, %x117: !rows, %x118: !rows, %x119: !rows, %x120: !rows, %x121: !rows, %x122: !rows, %x123: !rows, %x124: !rows, %x125: !rows, %x126: !rows, %x127: !rows, %x128: !rows, %x129: !rows, %x130: !rows, %x131: !rows, %x132: !rows, %x133: !rows, %x134: !rows, %x135: !rows, %x136: !rows, %x137: !rows, %x138: !rows, %x139: !rows) -> !sums {
    %r = kiln.kernel "wide"(%x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7, %x8, %x9, %x10, %x11, %x12, %x13, %x14, %x15, %x16, %x17, %x18, %x19, %x20, %x21, %x22, %x23, %x24, %x25, %x26, %x27, %x28, %x29, %x30, %x31, %x32, %x33, %x34, %x35, %x36, %x37, %x38, %x39, %x40, %x41, %x42, %x43, %x44, %x45, %x46, %x47, %x48, %x49, %x50, %x51, %x52, %x53, %x54, %x55, %x56, %x57, %x58, %x59, %x60, %x61, %x62, %x63, %x64, %x65, %x66, %x67, %x68, %x69, %x70, %x71, %x72, %x73, %x74, %x75, %x76, %x77, %x78, %x79, %x80, %x81, %x82, %x83, %x84, %x85, %x86, %x87, %x88, %x89, %x90, %x91, %x92, %x93, %x94, %x95, %x96, %x97, %x98, %x99, %x100, %x101, %x102, %x103, %x104, %x105, %x106, %x107, %x108, %x109, %x110, %x111, %x112, %x113, %x114, %x115, %x116, %x117, %x118, %x119, %x120, %x121, %x122, %x123, %x124, %x125, %x126, %x127, %x128, %x129, %x130, %x131, %x132, %x133, %x134, %x135, %x136, %x137, %x138, %x139) : (!rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows, !rows) -> !sums {
    ^bb0(%a0: !rows, %a1: !rows, %a2: !rows, %a3: !rows, %a4: !rows, %a5: !rows, %a6: !rows, %a7: !rows, %a8: !rows, %a9: !rows, %a10: !rows, %a11: !rows, %a12: !rows, %a13: !rows, %a14: !rows, %a15: !rows, %a16: !rows, %a17: !rows, %a18: !rows, %a19: !rows, %a20: !rows, %a21: !rows, %a22: !rows, %a23: !rows, %a24: !rows, %a25: !rows, %a26: !rows, %a27: !rows, %a28: !rows, %a29: !rows, %a30: !rows, %a31: !rows, %a32: !rows, %a33: !rows, %a34: !rows, %a35: !rows, %a36: !rows, %a37: !rows, %a38: !rows, %a39: !rows, %a40: !rows, %a41: !rows, %a42: !rows, %a43: !rows, %a44: !rows, %a45: !rows, %a46: !rows, %a47: !rows, %a48: !rows, %a49: !rows, %a50: !rows, %a51: !rows, %a52: !rows, %a53: !rows, %a54: !rows, %a55: !rows, %a56: !rows, %a57: !rows, %a58: !rows, %a59: !rows, %a60: !rows, %a61: !rows, %a62: !rows, %a63: !rows, %a64: !rows, %a65: !rows, %a66: !rows, %a67: !rows, %a68: !rows, %a69: !rows, %a70: !rows, %a71: !rows, %a72: !rows, %a73: !rows, %a74: !rows, %a75: !rows, %a76: !rows, %a77: !rows, %a78: !rows, %a79: !rows, %a80: !rows, %a81: !rows, %a82: !rows, %a83: !rows, %a84: !rows, %a85: !rows, %a86: !rows, %a87: !rows, %a88: !rows, %a89: !rows, %a90: !rows, %a91: !rows, %a92: !rows, %a93: !rows, %a94: !rows, %a95: !rows, %a96: !rows, %a97: !rows, %a98: !rows, %a99: !rows, %a100: !rows, %a101: !rows, %a102: !rows, %a103: !rows, %a104: !rows, %a105: !rows, %a106: !rows, %a107: !rows, %a108: !rows, %a109: !rows, %a110: !rows, %a111: !rows, %a112: !rows, %a113: !rows, %a114: !rows, %a115: !rows, %a116: !rows, %a117: !rows, %a118: !rows, %a119: !rows, %a120: !rows, %a121: !rows, %a122: !rows, %a123: !rows, %a124: !rows, %a125: !rows, %a126: !rows, %a127: !rows, %a128: !rows, %a129: !rows, %a130: !rows, %a131: !rows, %a132: !rows, %a133: !rows, %a134: !rows, %a135: !rows, %a136: !rows, %a137: !rows, %a138: !rows, %a139: !rows):
      %t1 = arith.addf %a0, %a1 : !rows
      %t2 = arith.addf %t1, %a2 : !rows
      %t3 = arith.addf %t2, %a3 : !rows
      %t4 = arith.addf %t3, %a4 : !rows
      %t5 = arith.addf %t4, %a5 : !rows
      %t6 = arith.addf %t5, %a6 : !rows
      %t7 = arith.addf %t6, %a7 : !rows
      %t8 = arith.addf %t7, %a8 : !rows
      %t9 = arith.addf %t8, %a9 : !rows
      %t10 = arith.addf %t9, %a10 : !rows
      %t11 = arith.addf %t10, %a11 : !rows
      %t12 = arith.addf %t11, %a12 : !rows
      %t13 = arith.addf %t12, %a13 : !rows
      %t14 = arith.addf %t13, %a14 : !rows
      %t15 = arith.addf %t14, %a15 : !rows
      %t16 = arith.addf %t15, %a16 : !rows
      %t17 = arith.addf %t16, %a17 : !rows
      %t18 = arith.addf %t17, %a18 : !rows
      %t19 = arith.addf %t18, %a19 : !rows
      %t20 = arith.addf %t19, %a20 : !rows
      %t21 = arith.addf %t20, %a21 : !rows
      %t22 = arith.addf %t21, %a22 : !rows
      %t23 = arith.addf %t22, %a23 : !rows
      %t24 = arith.addf %t23, %a24 : !rows
      %t25 = arith.addf %t24, %a25 : !rows
      %t26 = arith.addf %t25, %a26 : !rows
      %t27 = arith.addf %t26, %a27 : !rows
      %t28 = arith.addf %t27, %a28 : !rows
      %t29 = arith.addf %t28, %a29 : !rows
      %t30 = arith.addf %t29, %a30 : !rows
      %t31 = arith.addf %t30, %a31 : !rows
      %t32 = arith.addf %t31, %a32 : !rows
      %t33 = arith.addf %t32, %a33 : !rows
      %t34 = arith.addf %t33, %a34 : !rows
      %t35 = arith.addf %t34, %a35 : !rows
      %t36 = arith.addf %t35, %a36 : !rows
      %t37 = arith.addf %t36, %a37 : !rows
      %t38 = arith.addf %t37, %a38 : !rows
      %t39 = arith.addf %t38, %a39 : !rows
      %t40 = arith.addf %t39, %a40 : !rows
      %t41 = arith.addf %t40, %a41 : !rows
      %t42 = arith.addf %t41, %a42 : !rows
      %t43 = arith.addf %t42, %a43 : !rows
      %t44 = arith.addf %t43, %a44 : !rows
      %t45 = arith.addf %t44, %a45 : !rows
      %t46 = arith.addf %t45, %a46 : !rows
      %t47 = arith.addf %t46, %a47 : !rows
      %t48 = arith.addf %t47, %a48 : !rows
      %t49 = arith.addf %t48, %a49 : !rows
      %t50 = arith.addf %t49, %a50 : !rows
      %t51 = arith.addf %t50, %a51 : !rows
      %t52 = arith.addf %t51, %a52 : !rows
      %t53 = arith.addf %t52, %a53 : !rows
      %t54 = arith.addf %t53, %a54 : !rows
      %t55 = arith.addf %t54, %a55 : !rows
      %t56 = arith.addf %t55, %a56 : !rows
      %t57 = arith.addf %t56, %a57 : !rows
      %t58 = arith.addf %t57, %a58 : !rows
      %t59 = arith.addf %t58, %a59 : !rows
      %t60 = arith.addf %t59, %a60 : !rows
      %t61 = arith.addf %t60, %a61 : !rows
      %t62 = arith.addf %t61, %a62 : !rows
      %t63 = arith.addf %t62, %a63 : !rows
      %t64 = arith.addf %t63, %a64 : !rows
      %t65 = arith.addf %t64, %a65 : !rows
      %t66 = arith.addf %t65, %a66 : !rows
      %t67 = arith.addf %t66, %a67 : !rows
      %t68 = arith.addf %t67, %a68 : !rows
      %t69 = arith.addf %t68, %a69 : !rows
      %t70 = arith.addf %t69, %a70 : !rows
      %t71 = arith.addf %t70, %a71 : !rows
      %t72 = arith.addf %t71, %a72 : !rows
      %t73 = arith.addf %t72, %a73 : !rows
      %t74 = arith.addf %t73, %a74 : !rows
      %t75 = arith.addf %t74, %a75 : !rows
      %t76 = arith.addf %t75, %a76 : !rows
      %t77 = arith.addf %t76, %a77 : !rows
      %t78 = arith.addf %t77, %a78 : !rows
      %t79 = arith.addf %t78, %a79 : !rows
      %t80 = arith.addf %t79, %a80 : !rows
      %t81 = arith.addf %t80, %a81 : !rows
      %t82 = arith.addf %t81, %a82 : !rows
      %t83 = arith.addf %t82, %a83 : !rows
      %t84 = arith.addf %t83, %a84 : !rows
      %t85 = arith.addf %t84, %a85 : !rows
      %t86 = arith.addf %t85, %a86 : !rows
      %t87 = arith.addf %t86, %a87 : !rows
      %t88 = arith.addf %t87, %a88 : !rows
      %t89 = arith.addf %t88, %a89 : !rows
      %t90 = arith.addf %t89, %a90 : !rows
      %t91 = arith.addf %t90, %a91 : !rows
      %t92 = arith.addf %t91, %a92 : !rows
      %t93 = arith.addf %t92, %a93 : !rows
      %t94 = arith.addf %t93, %a94 : !rows
      %t95 = arith.addf %t94, %a95 : !rows
      %t96 = arith.addf %t95, %a96 : !rows
      %t97 = arith.addf %t96, %a97 : !rows
      %t98 = arith.addf %t97, %a98 : !rows
      %t99 = arith.addf %t98, %a99 : !rows
      %t100 = arith.addf %t99, %a100 : !rows
      %t101 = arith.addf %t100, %a101 : !rows
      %t102 = arith.addf %t101, %a102 : !rows
      %t103 = arith.addf %t102, %a103 : !rows
      %t104 = arith.addf %t103, %a104 : !rows
      %t105 = arith.addf %t104, %a105 : !rows
      %t106 = arith.addf %t105, %a106 : !rows
      %t107 = arith.addf %t106, %a107 : !rows
      %t108 = arith.addf %t107, %a108 : !rows
      %t109 = arith.addf %t108, %a109 : !rows
      %t110 = arith.addf %t109, %a110 : !rows
      %t111 = arith.addf %t110, %a111 : !rows
      %t112 = arith.addf %t111, %a112 : !rows
      %t113 = arith.addf %t112, %a113 : !rows
      %t114 = arith.addf %t113, %a114 : !rows
      %t115 = arith.addf %t114, %a115 : !rows
      %t116 = arith.addf %t115, %a116 : !rows
      %t117 = arith.addf %t116, %a117 : !rows
      %t118 = arith.addf %t117, %a118 : !rows
      %t119 = arith.addf %t118, %a119 : !rows
      %t120 = arith.addf %t119, %a120 : !rows
      %t121 = arith.addf %t120, %a121 : !rows
      %t122 = arith.addf %t121, %a122 : !rows
      %t123 = arith.addf %t122, %a123 : !rows
      %t124 = arith.addf %t123, %a124 : !rows
      %t125 = arith.addf %t124, %a125 : !rows
      %t126 = arith.addf %t125, %a126 : !rows
      %t127 = arith.addf %t126, %a127 : !rows
      %t128 = arith.addf %t127, %a128 : !rows
      %t129 = arith.addf %t128, %a129 : !rows
      %t130 = arith.addf %t129, %a130 : !rows
      %t131 = arith.addf %t130, %a131 : !rows
      %t132 = arith.addf %t131, %a132 : !rows
      %t133 = arith.addf %t132, %a133 : !rows
      %t134 = arith.addf %t133, %a134 : !rows
      %t135 = arith.addf %t134, %a135 : !rows
      %t136 = arith.addf %t135, %a136 : !rows
      %t137 = arith.addf %t136, %a137 : !rows
      %t138 = arith.addf %t137, %a138 : !rows
      %t139 = arith.addf %t138, %a139 : !rows
      %s = kiln.reduce sum %t139 dims [0] : !rows -> !sums
      kiln.yield %s : !sums
    }
    return %r : !sums
  }
}

//--- sized.mlir
// Run-time sizes are usual ones, or those that are told: what has few queries takes a small tile, and
// what has few keys too is left to threads.
// CHECK: schedule(<attention, queries = 128, keys = 64,
// SHORT: schedule(<attention, queries = 16, keys = 64,
// FEW: schedule(<attention, queries = 16, keys = 16, stages = 1, blocks = 4, launch = programmatic, products = threads>)
func.func @attention(%q: tensor<?x4x?x32xf32>, %k: tensor<?x4x?x32xf32>, %v: tensor<?x4x?x32xf32>)
    -> (tensor<?x4x?x32xf32>, tensor<?x4x?xf32> {kiln.gradient = false}) {
  %o, %lse = kiln.attention %q, %k, %v {scale = 2.500000000e-01 : f32}
      : (tensor<?x4x?x32xf32>, tensor<?x4x?x32xf32>, tensor<?x4x?x32xf32>) -> (tensor<?x4x?x32xf32>, tensor<?x4x?xf32>)
  return %o, %lse : tensor<?x4x?x32xf32>, tensor<?x4x?xf32>
}
