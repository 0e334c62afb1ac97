// kiln.cut and kiln.fuse: what the text asks of kiln-fuse against its own choice.
// RUN: split-file %s %t
// RUN: kiln-opt %t/cut.mlir -split-input-file --kiln-fuse -verify-diagnostics -o %t/cut.out
// RUN: FileCheck %t/cut.mlir --input-file=%t/cut.out
// RUN: kiln-opt %t/fuse.mlir -split-input-file --kiln-fuse | FileCheck %t/fuse.mlir
// RUN: kiln-opt %t/derived.mlir --kiln-differentiate --kiln-fuse | FileCheck %t/derived.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file --kiln-fuse -verify-diagnostics -o /dev/null

//--- cut.mlir
// The exponential is stored; what was asked for is gone from the kernels.
// CHECK-LABEL: func.func @chain
// CHECK: %[[A:.*]] = kiln.kernel "chain_0"(%{{.*}}) : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NOT: kiln.cut
// CHECK: math.exp
// CHECK: kiln.kernel "chain_1"(%[[A]]) : (tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK: kiln.softmax
func.func @chain(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %n = arith.negf %x : tensor<?x8xf32>
  // expected-note @+1 {{with this operation}}
  %a = math.exp %n {kiln.cut} : tensor<?x8xf32>
  // expected-remark @+1 {{not fused: a cut was asked for ('kiln.cut') (would save 12 MB of traffic and launch)}}
  %b = kiln.softmax %a : tensor<?x8xf32> -> tensor<?x8xf32>
  return %b : tensor<?x8xf32>
}
// -----
// Through a broadcast, too; and what reads neither is free to join either.
// CHECK-LABEL: func.func @statistic
// CHECK: kiln.kernel "statistic_0"(%{{.*}}) : (tensor<?x8xf32>) -> {{.*}}tensor<?xf32>
// CHECK: kiln.kernel "statistic_1"(
// CHECK-NOT: kiln.kernel
func.func @statistic(%x: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  // expected-note @+1 {{with this operation}}
  %m = kiln.reduce max %x dims [1] {kiln.cut} : tensor<?x8xf32> -> tensor<?xf32>
  %b = kiln.broadcast %m dims [0] like %x : tensor<?xf32>, tensor<?x8xf32> -> tensor<?x8xf32>
  // expected-remark @+1 {{not fused: a cut was asked for ('kiln.cut')}}
  %y = arith.subf %x, %b : tensor<?x8xf32>
  %z = math.exp %x : tensor<?x8xf32>
  return %y, %z : tensor<?x8xf32>, tensor<?x8xf32>
}
// -----
// A broadcast that is cut is stored instead of made again.
// CHECK-LABEL: func.func @stored
// CHECK: %[[B:.*]] = kiln.kernel "stored_0"(%{{.*}}) : (tensor<8xf32>) -> tensor<4x8xf32>
// CHECK: kiln.broadcast
// CHECK: kiln.kernel "stored_1"(%{{.*}}%[[B]]{{.*}}) :
// CHECK-NOT: kiln.broadcast
// CHECK: return
func.func @stored(%x: tensor<4x8xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
  // expected-note @+1 {{with this operation}}
  %b = kiln.broadcast %g dims [1] {kiln.cut} : tensor<8xf32> -> tensor<4x8xf32>
  // expected-remark @+1 {{not fused: a cut was asked for ('kiln.cut')}}
  %y = arith.mulf %x, %b : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
// -----
// Two pairs of siblings, each pair waiting for one of the other: only one pair is a kernel.
// CHECK-LABEL: func.func @entangled
// CHECK-COUNT-3: kiln.kernel "entangled_
// CHECK-NOT: kiln.kernel
func.func @entangled(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  // expected-note @+1 {{with this operation}}
  %a = math.exp %x {kiln.cut} : tensor<?x8xf32>
  // expected-note @+1 {{with this operation}}
  %b = math.sin %y {kiln.cut} : tensor<?x8xf32>
  // expected-remark @+1 {{not fused: a cut was asked for ('kiln.cut')}}
  %c = arith.addf %y, %a : tensor<?x8xf32>
  // expected-remark @+1 {{not fused: a cut was asked for ('kiln.cut')}}
  %d = arith.addf %x, %b : tensor<?x8xf32>
  return %c, %d : tensor<?x8xf32>, tensor<?x8xf32>
}

//--- fuse.mlir
// They read nothing in common and would be two kernels.
// CHECK-LABEL: func.func @strangers
// CHECK-NEXT: kiln.kernel "strangers"(%{{.*}}, %{{.*}}) : (tensor<?x8xf32>, tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>)
// CHECK-NOT: kiln.fuse
// CHECK: return
func.func @strangers(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %a = math.exp %x {kiln.fuse = "both"} : tensor<?x8xf32>
  %b = math.exp %y {kiln.fuse = "both"} : tensor<?x8xf32>
  return %a, %b : tensor<?x8xf32>, tensor<?x8xf32>
}
// -----
// Two names are two groups; each may grow by what has no name.
// CHECK-LABEL: func.func @two
// CHECK: kiln.kernel "two_0"
// CHECK: math.exp
// CHECK: math.sin
// CHECK: kiln.kernel "two_1"
// CHECK: math.cos
// CHECK: math.tanh
func.func @two(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %a = math.exp %x {kiln.fuse = "first"} : tensor<?x8xf32>
  %b = math.sin %a {kiln.cut, kiln.fuse = "first"} : tensor<?x8xf32>
  %c = math.cos %b {kiln.fuse = "second"} : tensor<?x8xf32>
  %d = math.tanh %c {kiln.fuse = "second"} : tensor<?x8xf32>
  return %d : tensor<?x8xf32>
}

//--- derived.mlir
// The forward is cut; the backward is left to its own choice.
// CHECK-LABEL: func.func @cut(
// CHECK: kiln.kernel "cut_0"
// CHECK: kiln.kernel "cut_1"
// CHECK-LABEL: func.func @cut_backward(
// CHECK: kiln.kernel "cut_backward"(
// CHECK-NOT: kiln.kernel
func.func @cut(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %a = math.exp %x {kiln.cut} : tensor<?x8xf32>
  %b = math.sin %a : tensor<?x8xf32>
  return %b : tensor<?x8xf32>
}

//--- errors.mlir
// What the family cannot do is an error with both places.
func.func @column(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-note @+1 {{with this operation}}
  %s = kiln.reduce sum %x dims [0] {kiln.fuse = "one"} : tensor<?x8xf32> -> tensor<8xf32>
  %b = kiln.broadcast %s dims [1] like %x : tensor<8xf32>, tensor<?x8xf32> -> tensor<?x8xf32>
  // expected-error @+1 {{must be in one kernel with all that is 'kiln.fuse = "one"', and cannot: the sum over leading dimensions at this kernel's input is complete only after the kernel that computes it}}
  %y = arith.subf %x, %b {kiln.fuse = "one"} : tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
// -----
// The first that does not fit is named, not the last.
func.func @widths(%x: tensor<?x8xf32>, %y: tensor<?x4xf32>) -> (tensor<?x8xf32>, tensor<?x4xf32>, tensor<?x8xf32>) {
  // expected-note @+1 {{with this operation}}
  %a = math.exp %x {kiln.fuse = "one"} : tensor<?x8xf32>
  // expected-error @+1 {{must be in one kernel with all that is 'kiln.fuse = "one"', and cannot: }}
  %b = math.exp %y {kiln.fuse = "one"} : tensor<?x4xf32>
  %c = math.sin %x {kiln.fuse = "one"} : tensor<?x8xf32>
  return %a, %b, %c : tensor<?x8xf32>, tensor<?x4xf32>, tensor<?x8xf32>
}
// -----
func.func @both(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-note @+1 {{the cut was asked for here}}
  %a = math.exp %x {kiln.cut, kiln.fuse = "one"} : tensor<?x8xf32>
  // expected-error @+1 {{must be in one kernel with all that is 'kiln.fuse = "one"', and cannot: 'kiln.cut' asks for what it reads to be stored}}
  %b = math.sin %a {kiln.fuse = "one"} : tensor<?x8xf32>
  return %b : tensor<?x8xf32>
}
// -----
func.func @between(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %a = math.exp %x {kiln.fuse = "one"} : tensor<?x8xf32>
  // expected-note @+1 {{through this operation, which is not among them}}
  %b = math.sin %a {kiln.fuse = "other"} : tensor<?x8xf32>
  // expected-error @+1 {{must be in one kernel with all that is 'kiln.fuse = "one"', and cannot: a value leaves them and comes back}}
  %c = arith.addf %a, %b {kiln.fuse = "one"} : tensor<?x8xf32>
  return %c : tensor<?x8xf32>
}
// -----
func.func @free(%x: tensor<4x8xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{'kiln.fuse' is asked of an operation that is copied into every kernel that uses it; leave it out}}
  %b = kiln.broadcast %g dims [1] {kiln.fuse = "one"} : tensor<8xf32> -> tensor<4x8xf32>
  %y = arith.mulf %x, %b : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
// -----
func.func @kernel(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-error @+1 {{'kiln.fuse' is asked of an operation that is a kernel; write what is to join it into its body}}
  %b = kiln.kernel "mine"(%x) {kiln.fuse = "one"} : (tensor<?x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%i: tensor<?x8xf32>):
    %s = math.sin %i : tensor<?x8xf32>
    kiln.yield %s : tensor<?x8xf32>
  }
  return %b : tensor<?x8xf32>
}
// -----
func.func @inside(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %b = kiln.kernel "mine"(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%i: tensor<?x8xf32>):
    // expected-error @+1 {{'kiln.cut' is asked of an operation that is in a kernel written by hand; no kernel is cut or merged}}
    %s = math.sin %i {kiln.cut} : tensor<?x8xf32>
    kiln.yield %s : tensor<?x8xf32>
  }
  return %b : tensor<?x8xf32>
}
// -----
func.func @lists(%x: tensor<?xf32> {kiln.list}) -> (tensor<?xf32> {kiln.list}) {
  // expected-error @+1 {{'kiln.cut' in a function over lists of tensors, whose kernels are parted by its sums alone; leave it out}}
  %y = math.exp %x {kiln.cut} : tensor<?xf32>
  return %y : tensor<?xf32>
}
// -----
func.func @value(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-error @+1 {{attribute 'kiln.cut' takes no value}}
  %y = math.exp %x {kiln.cut = true} : tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
// -----
func.func @number(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-error @+1 {{attribute 'kiln.fuse' must be a string, the name that the operations of one kernel share}}
  %y = math.exp %x {kiln.fuse = 1} : tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
