// Names that the dialect does not know: an error at their place, what is allowed there, the nearest.
// RUN: split-file %s %t
// RUN: not kiln-opt %t/argument.mlir 2>&1 | FileCheck %t/argument.mlir
// RUN: not kiln-opt %t/result.mlir 2>&1 | FileCheck %t/result.mlir
// RUN: not kiln-opt %t/operation.mlir 2>&1 | FileCheck %t/operation.mlir
// RUN: not kiln-opt %t/function.mlir 2>&1 | FileCheck %t/function.mlir
// RUN: not kiln-opt %t/places.mlir 2>&1 | FileCheck %t/places.mlir
// RUN: not kiln-opt %t/own.mlir 2>&1 | FileCheck %t/own.mlir
// RUN: not kiln-opt %t/none.mlir 2>&1 | FileCheck %t/none.mlir
// RUN: not kiln-opt %t/op.mlir 2>&1 | FileCheck %t/op.mlir
// RUN: not kiln-opt %t/field.mlir 2>&1 | FileCheck %t/field.mlir
// RUN: not kiln-opt %t/layout.mlir 2>&1 | FileCheck %t/layout.mlir
// RUN: not kiln-opt %t/short.mlir 2>&1 | FileCheck %t/short.mlir
// RUN: kiln-opt %t/known.mlir | kiln-opt | FileCheck %t/known.mlir

//--- argument.mlir
// CHECK: argument.mlir:[[#@LINE+1]]:40: error: unknown attribute 'kiln.oldre' of argument 1; known are kiln.name, kiln.layout, kiln.older, kiln.list, kiln.gradient; did you mean 'kiln.older'?
func.func @f(%x: tensor<?x8xf32>,      %y: tensor<?x8xf32> {kiln.oldre}) -> tensor<?x8xf32> {
  return %x : tensor<?x8xf32>
}

//--- result.mlir
// CHECK: result.mlir:[[#@LINE+1]]:1: error: unknown attribute 'kiln.lists' of result 0; {{.*}}; did you mean 'kiln.list'?
func.func @f(%x: tensor<?xf32> {kiln.list}) -> (tensor<?xf32> {kiln.lists}) {
  return %x : tensor<?xf32>
}

//--- operation.mlir
func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // CHECK: operation.mlir:[[#@LINE+1]]:8: error: 'math.exp' op unknown attribute 'kiln.fues' of an operation; known are kiln.cut, kiln.fuse, {{.*}}; did you mean 'kiln.fuse'?
  %y = math.exp %x {kiln.fues = "a"} : tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

//--- function.mlir
// Nothing is near.
// CHECK: function.mlir:[[#@LINE+1]]:1: error: 'func.func' op unknown attribute 'kiln.colour' of an operation; known are {{.*}} kiln.launch{{$}}
func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> attributes {kiln.colour = "red"} {
  return %x : tensor<?x8xf32>
}

//--- places.mlir
func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // CHECK: places.mlir:[[#@LINE+1]]:8: error: 'math.exp' op attribute 'kiln.older' belongs to an argument or a result of a function, not to an operation
  %y = math.exp %x {kiln.older} : tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

//--- own.mlir
func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // CHECK: own.mlir:[[#@LINE+1]]:8: error: 'kiln.softmax' op unknown attribute 'scael'; the operation has scale; did you mean 'scale'?
  %y = kiln.softmax %x {scael = 0.5 : f32} : tensor<?x8xf32> -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

//--- none.mlir
func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // CHECK: none.mlir:[[#@LINE+1]]:8: error: 'kiln.silu' op unknown attribute 'beta'; the operation has none{{$}}
  %y = kiln.silu %x {beta = 0.5 : f32} : tensor<?x8xf32> -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

//--- op.mlir
func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // CHECK: op.mlir:[[#@LINE+1]]:8: error: custom op 'kiln.sofmax' is unknown; kiln has adamw, {{.*}}, transpose, yield; did you mean 'kiln.softmax'?
  %y = kiln.sofmax %x : tensor<?x8xf32> -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

//--- field.mlir
func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = kiln.kernel "k"(%x)
      // CHECK: field.mlir:[[#@LINE+1]]:42: error: unknown knob 'vectr'; there are lanes, vector, {{.*}}, cluster; did you mean 'vector'?
      schedule(#kiln.schedule<lanes = 2, vectr = 4>) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%a: tensor<?x8xf32>):
    kiln.yield %a : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}

//--- layout.mlir
// CHECK: layout.mlir:[[#@LINE+1]]:62: error: unknown field 'stride'; there are strides, align, multiple; did you mean 'strides'?
func.func @f(%x: tensor<?x8xf32> {kiln.layout = #kiln.layout<stride = [16, 1]>}) -> tensor<?x8xf32> {
  return %x : tensor<?x8xf32>
}

//--- short.mlir
// As schedules are printed, over several lines.
func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = kiln.kernel "k"(%x) schedule(<lanes = 2,
      // CHECK: short.mlir:[[#@LINE+1]]:25: error: unknown knob 'thread'; {{.*}}; did you mean 'threads'?
      grid = one_shot,  thread = 32>) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
  ^bb0(%a: tensor<?x8xf32>):
    kiln.yield %a : tensor<?x8xf32>
  }
  return %y : tensor<?x8xf32>
}

//--- known.mlir
// Every field of a schedule that is written is one that is read.
#all = #kiln.schedule<lanes = 256, vector = 1, rows = 2, threads = 128, blocks = 4, grid = resident, keep = ring, launch = older_first, columns = shared, stages = 3, cluster = 2>
// CHECK: kiln.older
// CHECK: schedule(<lanes = 256, vector = 1, rows = 2, threads = 128, blocks = 4, grid = resident, keep = ring, launch = older_first, columns = shared, stages = 3, cluster = 2>)
func.func @f(%x: tensor<?x512xf32> {kiln.older, kiln.name = "x", kiln.gradient = false, kiln.layout = #kiln.layout<strides = [512, 1], align = 8>})
    -> (tensor<?x512xf32> {kiln.gradient = true, other.name = 1}) {
  %y = kiln.kernel "k"(%x) schedule(#all) : (tensor<?x512xf32>) -> tensor<?x512xf32> {
  ^bb0(%a: tensor<?x512xf32>):
    %b = arith.addf %a, %a {kiln.cut, kiln.fuse = "a", kiln.rounded, kiln.near} : tensor<?x512xf32>
    kiln.yield %b : tensor<?x512xf32>
  }
  return %y : tensor<?x512xf32>
}
