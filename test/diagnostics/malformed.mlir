// Text that is not MLIR: file, line and column of what was not understood.
// RUN: split-file %s %t
// RUN: not kiln-opt %t/bracket.mlir 2>&1 | FileCheck %t/bracket.mlir
// RUN: not kiln-opt %t/op.mlir 2>&1 | FileCheck %t/op.mlir
// RUN: not kiln-opt %t/value.mlir 2>&1 | FileCheck %t/value.mlir
// RUN: not kiln-opt %t/type.mlir 2>&1 | FileCheck %t/type.mlir

//--- bracket.mlir
// CHECK: bracket.mlir:[[#@LINE+1]]:32: error: expected '>' in tensor type
func.func @f(%x: tensor<?x8xf32 ) {

//--- op.mlir
func.func @f(%x: tensor<?x8xf32>) {
  // CHECK: op.mlir:[[#@LINE+1]]:8: error: custom op 'kiln.layernorm' is unknown
  %y = kiln.layernorm %x : tensor<?x8xf32>
  return
}

//--- value.mlir
func.func @f(%x: tensor<?x8xf32>) {
  // CHECK: value.mlir:[[#@LINE+1]]:21: error: use of undeclared SSA value name
  %p = kiln.softmax %z : tensor<?x8xf32> -> tensor<?x8xf32>
  return
}

//--- type.mlir
func.func @f(%x: tensor<?x8xf32>) {
  // CHECK: type.mlir:[[#@LINE+2]]:21: error: use of value '%x' expects different type than prior uses
  // CHECK: type.mlir:[[#@LINE-2]]:14: note: prior use here
  %p = kiln.softmax %x : tensor<?x9xf32> -> tensor<?x9xf32>
  return
}
