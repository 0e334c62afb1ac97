// Functions over lists of tensors: the attribute, their division into kernels, schedules, lowering.
// RUN: split-file %s %t
// RUN: kiln-opt %t/attribute.mlir -split-input-file -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/fuse.mlir --kiln-canonicalize --kiln-fuse | FileCheck %t/fuse.mlir
// RUN: kiln-opt %t/refused.mlir -split-input-file --kiln-fuse -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/parts.mlir -split-input-file --kiln-fuse --kiln-schedule -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/number.mlir --kiln-emittable | FileCheck %t/number.mlir
// RUN: kiln-opt %t/sum.mlir --kiln-fuse --kiln-schedule --kiln-verify-schedule | FileCheck %t/sum.mlir --check-prefix=SCHEDULE
// RUN: kiln-opt %t/sum.mlir --kiln-fuse --kiln-schedule=arch=sm_80 --kiln-verify-schedule=arch=sm_80 | FileCheck %t/sum.mlir --check-prefix=AMPERE
// RUN: kiln-opt %t/sum.mlir --kiln-emittable | FileCheck %t/sum.mlir
// RUN: kiln-opt %t/schedule.mlir -split-input-file --kiln-verify-schedule -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/lower.mlir -split-input-file --kiln-lower -verify-diagnostics -o /dev/null

//--- attribute.mlir
// expected-error @+1 {{argument 0 is a list of tensors and has type 'tensor<?x8xf32>'; a list has one dimension of run-time length, as tensor<?xf32>}}
func.func @rank(%x: tensor<?x8xf32> {kiln.list}) {
  return
}
// -----
// expected-error @+1 {{result 0 is a list of tensors and has type 'tensor<4xf32>'}}
func.func private @length() -> (tensor<4xf32> {kiln.list})
// -----
// expected-error @+1 {{attribute 'kiln.list' of argument 0 is 16 : i64; write it alone, or with the number of its part, 0 to 15}}
func.func @tooMany(%x: tensor<?xf32> {kiln.list = 16}) {
  return
}
// -----
// expected-error @+1 {{attribute 'kiln.list' of result 0 is "one"; write it alone}}
func.func private @value() -> (tensor<?xf32> {kiln.list = "one"})

//--- fuse.mlir
// Two sums, one of which needs the other: three kernels. Each computes again what it needs of the
// lists, numbers are handed on, and only the last stores lists.
// CHECK-LABEL: func.func @f
// CHECK-SAME: (%[[X:.*]]: tensor<?xf32> {kiln.list}, %[[N:.*]]: tensor<f32>)
// CHECK: %[[A:.*]] = kiln.kernel "f_0"(%[[X]], %[[N]]) : (tensor<?xf32>, tensor<f32>) -> tensor<f32>
// CHECK: math.exp
// CHECK: kiln.reduce sum
// CHECK: arith.divf
// CHECK: %[[B:.*]]:2 = kiln.kernel "f_1"(%[[X]], %[[A]]) : (tensor<?xf32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
// CHECK: math.exp
// CHECK: kiln.broadcast
// CHECK: arith.subf
// CHECK: kiln.reduce sum
// CHECK: math.sqrt
// CHECK: %[[C:.*]] = kiln.kernel "f_2"(%[[X]], %[[A]], %[[B]]#1) : (tensor<?xf32>, tensor<f32>, tensor<f32>) -> tensor<?xf32>
// CHECK: math.exp
// CHECK: arith.subf
// CHECK: arith.divf
// CHECK: return %[[C]], %[[B]]#0
func.func @f(%x: tensor<?xf32> {kiln.list}, %n: tensor<f32>) -> (tensor<?xf32> {kiln.list}, tensor<f32>) {
  %e = math.exp %x : tensor<?xf32>
  %sum = kiln.reduce sum %e dims [0] : tensor<?xf32> -> tensor<f32>
  %mean = arith.divf %sum, %n : tensor<f32>
  %means = kiln.broadcast %mean dims [] like %x : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
  %off = arith.subf %e, %means : tensor<?xf32>
  %square = arith.mulf %off, %off : tensor<?xf32>
  %squares = kiln.reduce sum %square dims [0] : tensor<?xf32> -> tensor<f32>
  %dev = math.sqrt %squares : tensor<f32>
  %devs = kiln.broadcast %dev dims [] like %x : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
  %y = arith.divf %off, %devs : tensor<?xf32>
  return %y, %dev : tensor<?xf32>, tensor<f32>
}

//--- refused.mlir
// expected-error @+1 {{argument 1 of type 'tensor<8xf32>' is neither a list ('kiln.list') nor without dimensions; the function is over lists}}
func.func @mixed(%x: tensor<?xf32> {kiln.list}, %b: tensor<8xf32>) -> (tensor<?xf32> {kiln.list}) {
  return %x : tensor<?xf32>
}
// -----
// expected-error @+1 {{result 0 of type 'tensor<?xf32>' is neither a list ('kiln.list') nor without dimensions}}
func.func @unmarked(%x: tensor<?xf32> {kiln.list}) -> tensor<?xf32> {
  %y = math.exp %x : tensor<?xf32>
  return %y : tensor<?xf32>
}
// -----
func.func @largest(%x: tensor<?xf32> {kiln.list}) -> tensor<f32> {
  // expected-error @+1 {{only sums are taken over lists}}
  %y = kiln.reduce max %x dims [0] : tensor<?xf32> -> tensor<f32>
  return %y : tensor<f32>
}
// -----
func.func @position(%x: tensor<?xf32> {kiln.list}) -> (tensor<?xi64> {kiln.list}) {
  // expected-error @+1 {{'kiln.index' has no form over lists of tensors}}
  %y = kiln.index dim 0 like %x : tensor<?xf32> -> tensor<?xi64>
  return %y : tensor<?xi64>
}
// -----
func.func @shape(%x: tensor<?xf32> {kiln.list}, %n: tensor<f32>) -> tensor<f32> {
  // expected-error @+1 {{a value of type 'tensor<4xf32>' in a function over lists; it is a list or has no dimensions}}
  %y = kiln.broadcast %n dims [] : tensor<f32> -> tensor<4xf32>
  return %n : tensor<f32>
}
// -----
func.func @byHand(%x: tensor<?xf32> {kiln.list}) -> (tensor<?xf32> {kiln.list}) {
  // expected-error @+1 {{a kernel in a function over lists before kiln-fuse, which forms them}}
  %y = kiln.kernel "k"(%x) : (tensor<?xf32>) -> tensor<?xf32> {
  ^bb0(%i: tensor<?xf32>):
    kiln.yield %i : tensor<?xf32>
  }
  return %y : tensor<?xf32>
}

// -----
// expected-error @+1 {{no argument is a list of part 1, and there is one of part 2; parts are counted from 0 and each has an argument}}
func.func @gap(%x: tensor<?xf32> {kiln.list}, %y: tensor<?xf32> {kiln.list = 2})
    -> (tensor<?xf32> {kiln.list}) {
  return %x : tensor<?xf32>
}
// -----
// expected-error @+1 {{no argument is a list of part 1, and there is one of part 1}}
func.func @noArgument(%x: tensor<?xf32> {kiln.list}) -> (tensor<?xf32> {kiln.list = 1}) {
  %y = math.exp %x : tensor<?xf32>
  return %y : tensor<?xf32>
}

//--- parts.mlir
func.func @meet(%x: tensor<?xf32> {kiln.list}, %y: tensor<?xf32> {kiln.list = 1}) -> (tensor<?xf32> {kiln.list}) {
  // expected-error @+1 {{reads lists of part 0 and of part 1; their tensors have lengths of their own, so they meet only through sums}}
  %z = arith.addf %x, %y : tensor<?xf32>
  return %z : tensor<?xf32>
}
// -----
func.func @moved(%x: tensor<?xf32> {kiln.list}, %y: tensor<?xf32> {kiln.list = 1}) -> (tensor<?xf32> {kiln.list = 1, kiln.name = "z"}) {
  // expected-error @+1 {{stores a list of part 0 as 'z' of part 1; a result belongs to the part of what it is made of}}
  %z = math.exp %x : tensor<?xf32>
  return %z : tensor<?xf32>
}

//--- number.mlir
// A number that no sum decides is stored by a block of its own, behind those of the lists; the
// others of its kernel go on with their part.
// CHECK: \22grid\22:\22oneShot\22,\22rowsPerBlock\22:1,\22blocks\22:0,\22rows\22:[\22s0\22],
// CHECK-SAME: \22further\22:{{\[\[\]\]}}
// CHECK: cu.kernel "kiln_count" attributes {arguments = ["first_block_1", "chunks", "segments", "chunk_count", "n", "next"]
// CHECK: cu.part to %arg0 {
// CHECK: %[[FOUND:.*]] = cu.look_up %arg1 : <i64>, %arg2 : <i64>, %arg3 {
// CHECK: cu.wait
// CHECK: cu.chunks %[[FOUND]]
// CHECK: cu.part from %arg0 {
// CHECK: cu.wait
// CHECK: cu.load_uniform
// CHECK: cu.store_scalar
// CHECK-NOT: cu.kernel
func.func @count(%x: tensor<?xf32> {kiln.list}, %n: tensor<f32> {kiln.name = "n"}) -> (tensor<?xf32> {kiln.list}, tensor<f32> {kiln.name = "next"}) {
  %y = math.exp %x : tensor<?xf32>
  %one = arith.constant dense<1.0> : tensor<f32>
  %next = arith.addf %n, %one : tensor<f32>
  return %y, %next : tensor<?xf32>, tensor<f32>
}

//--- sum.mlir
// A kernel that stores no list takes eight chunks a block, 16 bytes a thread and pass.
// SCHEDULE: kiln.kernel "norm"(%{{.*}}) schedule(<multi_tensor, vector = 8, chunks = 2, threads = 128, blocks = 12, launch = programmatic>)
// AMPERE: launch = plain>
// The plan knows the table by its two parts, and the lists apart from the other inputs.
// CHECK: \22inputs\22:[{\22name\22:\22limit\22,{{.*}}},{\22name\22:\22chunks\22,{{.*}}},{\22name\22:\22segments\22,{{.*}}},{\22name\22:\22counted\22,\22dtype\22:\22i32\22,
// CHECK-SAME: \22outputs\22:[{\22name\22:\22factor\22,
// CHECK-SAME: \22workspaces\22:[{\22name\22:\22kiln_norm_partials\22,\22dtype\22:\22f32\22,\22elements\22:1,\22blocksOf\22:0
// CHECK-SAME: \22name\22:\22kiln_norm\22,{{.*}}\22grid\22:\22resident\22,\22rowsPerBlock\22:2,\22blocks\22:12
// CHECK-SAME: \22further\22:{{\[\[\]\]}}
// CHECK-SAME: \22lists\22:{\22chunk\22:1024,\22inputs\22:[{\22name\22:\22g\22,\22dtype\22:\22bf16\22,{{.*}}\22counts\22:true}
// Chunks are looked up while the predecessor runs. Each is summed by itself. One block more is there for
// lists without elements.
// CHECK: cu.kernel "kiln_norm" attributes {arguments = ["chunks", "segments", "chunk_count", "kiln_norm_partials", "counted", "limit", "factor"], blocks = 12 : i64, header = "segment.cuh"
// CHECK: %[[FOUND:.*]] = cu.look_up %{{.*}} {lists = 1 : i64, per_block = 2 : i64, scratch = 0 : i64, shared, size = 1024 : i64, table = 64 : i64, threads = 128 : i64, vector = 8 : i64}
// CHECK: cu.wait
// CHECK: cu.release
// CHECK: %[[TOTAL:.*]] = cu.total
// CHECK: cu.stream %[[FOUND]] into(%[[TOTAL]]) attributes {lists = array<i64: 0>, names = ["g"], types = [bf16]} {
// CHECK: ^bb0(%[[G:.*]]: bf16, %[[OWN:.*]]: !cu.total):
// CHECK: arith.extf %[[G]]
// CHECK: cu.accumulate %{{.*}} into %[[OWN]]
// CHECK: cu.store_sum %[[TOTAL]], %{{.*}} {index = 0 : i64, scratch = 0 : i64}
// CHECK: cu.last_block %{{.*}} : <i32> attributes {scratch = 0 : i64} {
// CHECK: %[[SUM:.*]] = cu.sum_of_partials %{{.*}} {index = 0 : i64, scratch = 0 : i64, threads = 128 : i64}
// CHECK: %[[NORM:.*]] = math.sqrt %[[SUM]] : f32
// CHECK: arith.divf %{{.*}}, %[[NORM]]
// CHECK: cu.store_scalar
// CHECK-NOT: cu.kernel
func.func @norm(%g: tensor<?xbf16> {kiln.list, kiln.name = "g"}, %limit: tensor<f32> {kiln.name = "limit"}) -> (tensor<f32> {kiln.name = "factor"}) {
  %square = arith.mulf %g, %g : tensor<?xbf16>
  %wide = arith.extf %square : tensor<?xbf16> to tensor<?xf32>
  %sum = kiln.reduce sum %wide dims [0] : tensor<?xf32> -> tensor<f32>
  %norm = math.sqrt %sum : tensor<f32>
  %factor = arith.divf %limit, %norm : tensor<f32>
  return %factor : tensor<f32>
}

//--- schedule.mlir
func.func @f(%x: tensor<?xf32> {kiln.list}) -> (tensor<?xf32> {kiln.list}) {
  // expected-error @+1 {{schedule refused: 512 threads of 4 elements pass over a chunk of 1024}}
  %y = kiln.kernel "k"(%x) schedule(#kiln.schedule<multi_tensor, vector = 4, chunks = 1, threads = 512, blocks = 2, launch = plain>) : (tensor<?xf32>) -> tensor<?xf32> {
  ^bb0(%i: tensor<?xf32>):
    kiln.yield %i : tensor<?xf32>
  }
  return %y : tensor<?xf32>
}

// -----
func.func @parts(%x: tensor<?xf32> {kiln.list}, %y: tensor<?xbf16> {kiln.list = 1}) -> (tensor<?xf32> {kiln.list}, tensor<?xbf16> {kiln.list = 1}) {
  // expected-error @+1 {{schedule refused: 256 threads of 8 elements pass over a chunk of 1024}}
  %z:2 = kiln.kernel "k"(%x, %y) schedule(#kiln.schedule<multi_tensor, vector = 4, chunks = 1, threads = 256, blocks = 2, launch = plain>) : (tensor<?xf32>, tensor<?xbf16>) -> (tensor<?xf32>, tensor<?xbf16>) {
  ^bb0(%i: tensor<?xf32>, %j: tensor<?xbf16>):
    kiln.yield %i, %j : tensor<?xf32>, tensor<?xbf16>
  }
  return %z#0, %z#1 : tensor<?xf32>, tensor<?xbf16>
}

// -----
func.func @family(%x: tensor<?xf32> {kiln.list}) -> (tensor<?xf32> {kiln.list}) {
  // expected-error @+1 {{has a schedule of the family 'rows' and is a kernel of the family 'multi_tensor'}}
  %y = kiln.kernel "k"(%x) schedule(#kiln.schedule<lanes = 128, vector = 4, rows = 1, threads = 128, blocks = 2, grid = one_shot, keep = registers, launch = plain>) : (tensor<?xf32>) -> tensor<?xf32> {
  ^bb0(%i: tensor<?xf32>):
    kiln.yield %i : tensor<?xf32>
  }
  return %y : tensor<?xf32>
}

//--- lower.mlir
func.func @f(%x: tensor<?xf32> {kiln.list}) -> (tensor<?xf32> {kiln.list}) {
  %y = kiln.kernel "k"(%x) : (tensor<?xf32>) -> tensor<?xf32> {
  ^bb0(%i: tensor<?xf32>):
    %s = kiln.reduce sum %i dims [0] : tensor<?xf32> -> tensor<f32>
    // expected-error @+1 {{depends on a sum over lists, which is known only after the kernel}}
    %b = kiln.broadcast %s dims [] like %i : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
    %d = arith.divf %i, %b : tensor<?xf32>
    kiln.yield %d : tensor<?xf32>
  }
  return %y : tensor<?xf32>
}
// -----
func.func @f(%x: tensor<?xf32> {kiln.list}) -> (tensor<?xf32> {kiln.list}) {
  // expected-error @+1 {{a list that is no result of the function; kernels hand only numbers on}}
  %a = kiln.kernel "a"(%x) : (tensor<?xf32>) -> tensor<?xf32> {
  ^bb0(%i: tensor<?xf32>):
    kiln.yield %i : tensor<?xf32>
  }
  %y = kiln.kernel "k"(%a) : (tensor<?xf32>) -> tensor<?xf32> {
  ^bb0(%i: tensor<?xf32>):
    kiln.yield %i : tensor<?xf32>
  }
  return %y : tensor<?xf32>
}
