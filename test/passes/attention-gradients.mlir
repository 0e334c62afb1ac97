// All gradients of attention in one kernel, where few blocks have all keys, or where blocks take
// turns with those of queries.
// RUN: split-file %s %t
// RUN: kiln-opt %t/fuse.mlir -split-input-file --kiln-fuse | FileCheck %t/fuse.mlir
// RUN: kiln-opt %t/errors.mlir --kiln-fuse -verify-diagnostics -o /dev/null
// RUN: not kiln-opt %t/schedule.mlir --kiln-fuse "--kiln-schedule=schedule=#kiln.schedule<attention,queries=32,keys=64,stages=2,blocks=1,launch=plain,groups=1,products=warpgroups,bias=held>" --kiln-verify-schedule -o /dev/null 2>&1 | FileCheck %t/schedule.mlir --check-prefix=BLOCKS
// RUN: not kiln-opt %t/schedule.mlir --kiln-fuse "--kiln-schedule=schedule=#kiln.schedule<attention,queries=96,keys=128,stages=2,blocks=1,launch=plain,groups=1,products=warpgroups,bias=held>" --kiln-verify-schedule -o /dev/null 2>&1 | FileCheck %t/schedule.mlir --check-prefix=TILE
// RUN: not kiln-opt %t/schedule.mlir --kiln-fuse "--kiln-schedule=schedule=#kiln.schedule<attention,queries=32,keys=128,stages=2,blocks=1,launch=plain,groups=1,products=warpgroups,bias=held,side=2>" --kiln-verify-schedule -o /dev/null 2>&1 | FileCheck %t/schedule.mlir --check-prefix=SIDE
// RUN: kiln-opt %t/schedule.mlir --kiln-fuse "--kiln-schedule=schedule=#kiln.schedule<attention,queries=32,keys=128,stages=2,blocks=1,launch=programmatic,groups=4,products=warpgroups,bias=held>" --kiln-verify-schedule --kiln-lower --kiln-place | FileCheck %t/schedule.mlir --check-prefix=TWO
// RUN: kiln-opt %t/turns.mlir --kiln-fuse | FileCheck %t/turns.mlir --check-prefixes=ALL,HOPPER
// RUN: kiln-opt %t/turns.mlir --kiln-fuse=arch=sm_80 | FileCheck %t/turns.mlir --check-prefixes=ALL,OTHERS
// RUN: kiln-opt %t/held.mlir --kiln-fuse "--kiln-schedule=schedule=#kiln.schedule<attention,queries=64,keys=128,stages=2,blocks=1,launch=programmatic,groups=1,products=warpgroups,bias=held>" --kiln-verify-schedule --kiln-lower --kiln-place | FileCheck %t/held.mlir --check-prefix=HELD
// RUN: kiln-opt %t/parts.mlir --kiln-fuse "--kiln-schedule=schedule=#kiln.schedule<attention,queries=32,keys=128,stages=2,blocks=1,launch=programmatic,groups=4,products=warpgroups,bias=held>" --kiln-verify-schedule --kiln-lower --kiln-place | FileCheck %t/parts.mlir --check-prefix=PARTS
// RUN: not kiln-opt %t/parts.mlir --kiln-fuse "--kiln-schedule=schedule=#kiln.schedule<attention,queries=32,keys=64,stages=2,blocks=1,launch=plain,groups=1,products=warpgroups,bias=held>" --kiln-verify-schedule -o /dev/null 2>&1 | FileCheck %t/parts.mlir --check-prefix=FOUR
// RUN: kiln-opt %t/parts.mlir --kiln-fuse=arch=sm_80 | FileCheck %t/parts.mlir --check-prefix=AMPERE
// RUN: kiln-opt %t/parts.mlir --kiln-fuse --kiln-schedule | FileCheck %t/parts.mlir --check-prefix=USUAL
// RUN: kiln-opt %t/parts.mlir --kiln-fuse --kiln-schedule=spilled=kiln_f_second=168 | FileCheck %t/parts.mlir --check-prefix=SPILLED

//--- turns.mlir
// ALL-LABEL: func.func @long
// HOPPER: kiln.kernel "long"
// HOPPER: -> query tensor<2x?x64xbf16> key tensor<2x?x64xbf16> value tensor<2x?x64xbf16>
// OTHERS: kiln.kernel "long_0"
// OTHERS: -> query tensor<2x?x64xbf16>{{$}}
// OTHERS: kiln.kernel "long_1"
// OTHERS: -> key tensor<2x?x64xbf16> value tensor<2x?x64xbf16>{{$}}
func.func @long(%d: tensor<2x?x64xbf16>, %n: tensor<2x?xf32>, %q: tensor<2x?x64xbf16>) -> (tensor<2x?x64xbf16>, tensor<2x?x64xbf16>, tensor<2x?x64xbf16>) {
  %dq, %dk, %dv = kiln.attention_backward %d, %n, %n, %q, %q, %q : (tensor<2x?x64xbf16>, tensor<2x?xf32>, tensor<2x?xf32>, tensor<2x?x64xbf16>, tensor<2x?x64xbf16>, tensor<2x?x64xbf16>) -> query tensor<2x?x64xbf16> key tensor<2x?x64xbf16> value tensor<2x?x64xbf16>
  return %dq, %dk, %dv : tensor<2x?x64xbf16>, tensor<2x?x64xbf16>, tensor<2x?x64xbf16>
}
// Short sequences have kernels of their own, and so have windows.
// ALL-LABEL: func.func @short
// ALL: kiln.kernel "short_0"
// ALL: kiln.kernel "short_1"
func.func @short(%d: tensor<2x512x64xbf16>, %n: tensor<2x512xf32>, %q: tensor<2x512x64xbf16>) -> (tensor<2x512x64xbf16>, tensor<2x512x64xbf16>, tensor<2x512x64xbf16>) {
  %dq, %dk, %dv = kiln.attention_backward %d, %n, %n, %q, %q, %q : (tensor<2x512x64xbf16>, tensor<2x512xf32>, tensor<2x512xf32>, tensor<2x512x64xbf16>, tensor<2x512x64xbf16>, tensor<2x512x64xbf16>) -> query tensor<2x512x64xbf16> key tensor<2x512x64xbf16> value tensor<2x512x64xbf16>
  return %dq, %dk, %dv : tensor<2x512x64xbf16>, tensor<2x512x64xbf16>, tensor<2x512x64xbf16>
}
// Causal ones of so many rows have one.
// ALL-LABEL: func.func @short_causal
// HOPPER: kiln.kernel "short_causal"
// OTHERS: kiln.kernel "short_causal_0"
// OTHERS: kiln.kernel "short_causal_1"
func.func @short_causal(%d: tensor<2x512x64xbf16>, %n: tensor<2x512xf32>, %q: tensor<2x512x64xbf16>) -> (tensor<2x512x64xbf16>, tensor<2x512x64xbf16>, tensor<2x512x64xbf16>) {
  %dq, %dk, %dv = kiln.attention_backward %d, %n, %n, %q, %q, %q {causal = #kiln.causal<last>} : (tensor<2x512x64xbf16>, tensor<2x512xf32>, tensor<2x512xf32>, tensor<2x512x64xbf16>, tensor<2x512x64xbf16>, tensor<2x512x64xbf16>) -> query tensor<2x512x64xbf16> key tensor<2x512x64xbf16> value tensor<2x512x64xbf16>
  return %dq, %dk, %dv : tensor<2x512x64xbf16>, tensor<2x512x64xbf16>, tensor<2x512x64xbf16>
}
// ALL-LABEL: func.func @shorter_causal
// ALL: kiln.kernel "shorter_causal_0"
// ALL: kiln.kernel "shorter_causal_1"
func.func @shorter_causal(%d: tensor<2x511x64xbf16>, %n: tensor<2x511xf32>, %q: tensor<2x511x64xbf16>) -> (tensor<2x511x64xbf16>, tensor<2x511x64xbf16>, tensor<2x511x64xbf16>) {
  %dq, %dk, %dv = kiln.attention_backward %d, %n, %n, %q, %q, %q {causal = #kiln.causal<last>} : (tensor<2x511x64xbf16>, tensor<2x511xf32>, tensor<2x511xf32>, tensor<2x511x64xbf16>, tensor<2x511x64xbf16>, tensor<2x511x64xbf16>) -> query tensor<2x511x64xbf16> key tensor<2x511x64xbf16> value tensor<2x511x64xbf16>
  return %dq, %dk, %dv : tensor<2x511x64xbf16>, tensor<2x511x64xbf16>, tensor<2x511x64xbf16>
}
// ALL-LABEL: func.func @window
// ALL: kiln.kernel "window_0"
// ALL: kiln.kernel "window_1"
func.func @window(%d: tensor<2x?x64xbf16>, %n: tensor<2x?xf32>, %q: tensor<2x?x64xbf16>) -> (tensor<2x?x64xbf16>, tensor<2x?x64xbf16>, tensor<2x?x64xbf16>) {
  %dq, %dk, %dv = kiln.attention_backward %d, %n, %n, %q, %q, %q {window_left = 100 : i64} : (tensor<2x?x64xbf16>, tensor<2x?xf32>, tensor<2x?xf32>, tensor<2x?x64xbf16>, tensor<2x?x64xbf16>, tensor<2x?x64xbf16>) -> query tensor<2x?x64xbf16> key tensor<2x?x64xbf16> value tensor<2x?x64xbf16>
  return %dq, %dk, %dv : tensor<2x?x64xbf16>, tensor<2x?x64xbf16>, tensor<2x?x64xbf16>
}

//--- held.mlir
// By a schedule that holds biases they are two kernels all the same, of tiles turned round.
// HELD: cu.kernel {{.*}}kiln_long
// HELD: cu.differentiate_keys_sharing {{.*}}keys = 128 : i64{{.*}}queries = 64 : i64
// HELD: cu.kernel {{.*}}kiln_long_queries
// HELD: cu.differentiate_queries_sharing {{.*}}keys = 64 : i64{{.*}}queries = 128 : i64
func.func @long(%d: tensor<2x?x64xbf16>, %n: tensor<2x?xf32>, %q: tensor<2x?x64xbf16>) -> (tensor<2x?x64xbf16>, tensor<2x?x64xbf16>, tensor<2x?x64xbf16>) {
  %dq, %dk, %dv = kiln.attention_backward %d, %n, %n, %q, %q, %q : (tensor<2x?x64xbf16>, tensor<2x?xf32>, tensor<2x?xf32>, tensor<2x?x64xbf16>, tensor<2x?x64xbf16>, tensor<2x?x64xbf16>) -> query tensor<2x?x64xbf16> key tensor<2x?x64xbf16> value tensor<2x?x64xbf16>
  return %dq, %dk, %dv : tensor<2x?x64xbf16>, tensor<2x?x64xbf16>, tensor<2x?x64xbf16>
}

//--- fuse.mlir
// CHECK-LABEL: func.func @together
// CHECK: kiln.kernel "together"
// CHECK: kiln.attention_backward
// CHECK-NOT: kiln.kernel
// CHECK-LABEL: func.func @three_blocks
// CHECK: kiln.kernel "three_blocks"
// CHECK: -> query {{.*}} key {{.*}} value {{.*}} bias
// CHECK-NOT: kiln.kernel
// CHECK-LABEL: func.func @apart
// CHECK: kiln.kernel "apart_0"
// CHECK: -> query
// CHECK: kiln.kernel "apart_1"
// CHECK: -> key {{.*}} value {{.*}} bias
// CHECK-NOT: kiln.kernel
func.func @together(%d: tensor<?x2x72x16xbf16>, %n: tensor<?x2x72xf32>, %q: tensor<?x2x72x16xbf16>, %b: tensor<1x2x72x72xbf16>) -> (tensor<?x2x72x16xbf16>, tensor<?x2x72x16xbf16>, tensor<?x2x72x16xbf16>, tensor<1x2x72x72xf32>) {
  %dq, %dk, %dv, %db = kiln.attention_backward %d, %n, %n, %q, %q, %q bias %b : (tensor<?x2x72x16xbf16>, tensor<?x2x72xf32>, tensor<?x2x72xf32>, tensor<?x2x72x16xbf16>, tensor<?x2x72x16xbf16>, tensor<?x2x72x16xbf16>, tensor<1x2x72x72xbf16>) -> query tensor<?x2x72x16xbf16> key tensor<?x2x72x16xbf16> value tensor<?x2x72x16xbf16> bias tensor<1x2x72x72xf32>
  return %dq, %dk, %dv, %db : tensor<?x2x72x16xbf16>, tensor<?x2x72x16xbf16>, tensor<?x2x72x16xbf16>, tensor<1x2x72x72xf32>
}
func.func @three_blocks(%d: tensor<?x2x72x16xbf16>, %n: tensor<?x2x72xf32>, %q: tensor<?x2x72x16xbf16>, %k: tensor<?x2x264x16xbf16>, %b: tensor<1x2x72x264xbf16>) -> (tensor<?x2x72x16xbf16>, tensor<?x2x264x16xbf16>, tensor<?x2x264x16xbf16>, tensor<1x2x72x264xf32>) {
  %dq, %dk, %dv, %db = kiln.attention_backward %d, %n, %n, %q, %k, %k bias %b : (tensor<?x2x72x16xbf16>, tensor<?x2x72xf32>, tensor<?x2x72xf32>, tensor<?x2x72x16xbf16>, tensor<?x2x264x16xbf16>, tensor<?x2x264x16xbf16>, tensor<1x2x72x264xbf16>) -> query tensor<?x2x72x16xbf16> key tensor<?x2x264x16xbf16> value tensor<?x2x264x16xbf16> bias tensor<1x2x72x264xf32>
  return %dq, %dk, %dv, %db : tensor<?x2x72x16xbf16>, tensor<?x2x264x16xbf16>, tensor<?x2x264x16xbf16>, tensor<1x2x72x264xf32>
}
func.func @apart(%d: tensor<?x2x72x16xbf16>, %n: tensor<?x2x72xf32>, %q: tensor<?x2x72x16xbf16>, %k: tensor<?x2x392x16xbf16>, %b: tensor<1x2x72x392xbf16>) -> (tensor<?x2x72x16xbf16>, tensor<?x2x392x16xbf16>, tensor<?x2x392x16xbf16>, tensor<1x2x72x392xf32>) {
  %dq, %dk, %dv, %db = kiln.attention_backward %d, %n, %n, %q, %k, %k bias %b : (tensor<?x2x72x16xbf16>, tensor<?x2x72xf32>, tensor<?x2x72xf32>, tensor<?x2x72x16xbf16>, tensor<?x2x392x16xbf16>, tensor<?x2x392x16xbf16>, tensor<1x2x72x392xbf16>) -> query tensor<?x2x72x16xbf16> key tensor<?x2x392x16xbf16> value tensor<?x2x392x16xbf16> bias tensor<1x2x72x392xf32>
  return %dq, %dk, %dv, %db : tensor<?x2x72x16xbf16>, tensor<?x2x392x16xbf16>, tensor<?x2x392x16xbf16>, tensor<1x2x72x392xf32>
}

//--- errors.mlir
// More keys than three blocks have.
func.func @many_keys(%d: tensor<?x2x72x16xbf16>, %n: tensor<?x2x72xf32>, %q: tensor<?x2x72x16xbf16>, %k: tensor<?x2x392x16xbf16>, %b: tensor<1x2x72x392xbf16>) -> (tensor<?x2x72x16xbf16>, tensor<?x2x392x16xbf16>, tensor<?x2x392x16xbf16>, tensor<1x2x72x392xf32>) {
  // expected-error @+2 {{must be in one kernel with all that is 'kiln.fuse = }}
  // expected-note @+1 {{with this operation}}
  %dq, %dk, %dv, %db = kiln.attention_backward %d, %n, %n, %q, %k, %k bias %b {kiln.fuse = "all"} : (tensor<?x2x72x16xbf16>, tensor<?x2x72xf32>, tensor<?x2x72xf32>, tensor<?x2x72x16xbf16>, tensor<?x2x392x16xbf16>, tensor<?x2x392x16xbf16>, tensor<1x2x72x392xbf16>) -> query tensor<?x2x72x16xbf16> key tensor<?x2x392x16xbf16> value tensor<?x2x392x16xbf16> bias tensor<1x2x72x392xf32>
  return %dq, %dk, %dv, %db : tensor<?x2x72x16xbf16>, tensor<?x2x392x16xbf16>, tensor<?x2x392x16xbf16>, tensor<1x2x72x392xf32>
}

//--- schedule.mlir
// BLOCKS: schedule refused: bias = held of all gradients in one kernel takes 136 keys in two blocks at most, and keys = 64 makes 3
// TILE: schedule refused: bias = held of all gradients in one kernel takes tiles of 16, 32 or 64 queries, not 96, and one head at a time, not 1
// SIDE: schedule refused: bias = held of all gradients in one kernel takes tiles of 16, 32 or 64 queries, not 32, and one head at a time, not 2
// TWO: cu.differentiate_all_sharing {{.*}}cluster = 2 : i64
func.func @f(%d: tensor<?x2x72x16xbf16>, %n: tensor<?x2x72xf32>, %q: tensor<?x2x72x16xbf16>, %k: tensor<?x2x136x16xbf16>, %b: tensor<1x2x72x136xbf16>) -> (tensor<?x2x72x16xbf16>, tensor<?x2x136x16xbf16>, tensor<?x2x136x16xbf16>, tensor<1x2x72x136xf32>) {
  %dq, %dk, %dv, %db = kiln.attention_backward %d, %n, %n, %q, %k, %k bias %b : (tensor<?x2x72x16xbf16>, tensor<?x2x72xf32>, tensor<?x2x72xf32>, tensor<?x2x72x16xbf16>, tensor<?x2x136x16xbf16>, tensor<?x2x136x16xbf16>, tensor<1x2x72x136xbf16>) -> query tensor<?x2x72x16xbf16> key tensor<?x2x136x16xbf16> value tensor<?x2x136x16xbf16> bias tensor<1x2x72x136xf32>
  return %dq, %dk, %dv, %db : tensor<?x2x72x16xbf16>, tensor<?x2x136x16xbf16>, tensor<?x2x136x16xbf16>, tensor<1x2x72x136xf32>
}

//--- parts.mlir
// Of more than 256 queries or keys kernels have 192 queries each: one leaves sums of keys and values to
// the other, and one kernel adds up the bias's of both.
// PARTS: cu.kernel {{.*}}kiln_f_first
// PARTS: cu.differentiate_all_sharing {{.*}}cluster = 3 : i64{{.*}}first = 0 : i64{{.*}}leaves = true{{.*}}resumes = false
// PARTS: cu.kernel {{.*}}kiln_f_second
// PARTS: cu.differentiate_all_sharing {{.*}}cluster = 3 : i64{{.*}}first = 192 : i64{{.*}}leaves = false{{.*}}resumes = true
// PARTS: cu.kernel {{.*}}kiln_f_sum
// PARTS-NOT: cu.kernel
// Products of warps have kernels of their own, each with a schedule.
// AMPERE: kiln.kernel "f_0"
// AMPERE: kiln.kernel "f_1"
// What one of the two spills is held against the schedule that both have.
// USUAL: schedule(<attention, queries = 64, keys = 128
// SPILLED: schedule(<attention, queries = 32, keys = 128
// FOUR: schedule refused: bias = held of all gradients in one kernel takes 264 keys in three blocks at most, and keys = 64 makes 5
func.func @f(%d: tensor<?x2x200x16xbf16>, %n: tensor<?x2x200xf32>, %q: tensor<?x2x200x16xbf16>, %k: tensor<?x2x264x16xbf16>, %b: tensor<1x2x200x264xbf16>) -> (tensor<?x2x200x16xbf16>, tensor<?x2x264x16xbf16>, tensor<?x2x264x16xbf16>, tensor<1x2x200x264xf32>) {
  %dq, %dk, %dv, %db = kiln.attention_backward %d, %n, %n, %q, %k, %k bias %b : (tensor<?x2x200x16xbf16>, tensor<?x2x200xf32>, tensor<?x2x200xf32>, tensor<?x2x200x16xbf16>, tensor<?x2x264x16xbf16>, tensor<?x2x264x16xbf16>, tensor<1x2x200x264xbf16>) -> query tensor<?x2x200x16xbf16> key tensor<?x2x264x16xbf16> value tensor<?x2x264x16xbf16> bias tensor<1x2x200x264xf32>
  return %dq, %dk, %dv, %db : tensor<?x2x200x16xbf16>, tensor<?x2x264x16xbf16>, tensor<?x2x264x16xbf16>, tensor<1x2x200x264xf32>
}
