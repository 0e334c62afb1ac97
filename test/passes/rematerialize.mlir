// What one kernel would store for another is computed again there, if that moves fewer bytes.
// RUN: split-file %s %t
// RUN: kiln-opt %t/again.mlir -split-input-file --kiln-fuse | FileCheck %t/again.mlir

//--- again.mlir
// Half as many bytes are read as would have been stored and read; what only the second kernel
// needs is no longer in the first.
// CHECK-LABEL: func.func @narrow
// CHECK: %[[SUM:.*]] = kiln.kernel "narrow_0"(%arg0) : (tensor<?x64xbf16>) -> tensor<64xf32>
// CHECK-NOT: math.exp
// CHECK: kiln.kernel "narrow_1"(%arg0, %[[SUM]])
// CHECK: arith.extf
// CHECK: math.exp
func.func @narrow(%x: tensor<?x64xbf16>) -> tensor<?x64xf32> {
  %wide = arith.extf %x : tensor<?x64xbf16> to tensor<?x64xf32>
  %e = math.exp %wide : tensor<?x64xf32>
  %sum = kiln.reduce sum %wide dims [0] : tensor<?x64xf32> -> tensor<64xf32>
  %b = kiln.broadcast %sum dims [1] like %wide : tensor<64xf32>, tensor<?x64xf32> -> tensor<?x64xf32>
  %y = arith.mulf %e, %b : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
// -----
// What is gone with another is looked at once.
// CHECK-LABEL: func.func @squared
// CHECK: %[[SUM:.*]] = kiln.kernel "squared_0"(%arg0)
// CHECK-NOT: arith.mulf
// CHECK: kiln.kernel "squared_1"(%arg0, %[[SUM]])
func.func @squared(%x: tensor<?x64xbf16>) -> tensor<?x64xf32> {
  %wide = arith.extf %x : tensor<?x64xbf16> to tensor<?x64xf32>
  %root = math.absf %wide : tensor<?x64xf32>
  %square = arith.mulf %root, %root : tensor<?x64xf32>
  %cube = arith.mulf %square, %root : tensor<?x64xf32>
  %sum = kiln.reduce sum %wide dims [0] : tensor<?x64xf32> -> tensor<64xf32>
  %b = kiln.broadcast %sum dims [1] like %wide : tensor<64xf32>, tensor<?x64xf32> -> tensor<?x64xf32>
  %y = arith.mulf %cube, %b : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
// -----
// A result is stored anyway, and reading it is cheaper than reading two tensors.
// CHECK-LABEL: func.func @stored
// CHECK: %[[V:.*]]:2 = kiln.kernel "stored_0"(%arg0, %arg1)
// CHECK: kiln.kernel "stored_1"(%[[V]]#0, %[[V]]#1)
func.func @stored(%x: tensor<?x64xf32>, %z: tensor<?x64xf32>)
    -> (tensor<?x64xf32>, tensor<?x64xf32>) {
  %v = arith.addf %x, %z : tensor<?x64xf32>
  %sum = kiln.reduce sum %v dims [0] : tensor<?x64xf32> -> tensor<64xf32>
  %b = kiln.broadcast %sum dims [1] like %v : tensor<64xf32>, tensor<?x64xf32> -> tensor<?x64xf32>
  %y = arith.mulf %v, %b : tensor<?x64xf32>
  return %v, %y : tensor<?x64xf32>, tensor<?x64xf32>
}
// -----
// A cut asks for the value to be stored, and it is.
// CHECK-LABEL: func.func @cut
// CHECK: %[[V:.*]] = kiln.kernel "cut_0"(%arg0)
// CHECK: %[[SUM:.*]] = kiln.kernel "cut_1"(%[[V]])
// CHECK: kiln.kernel "cut_2"(%[[V]], %[[SUM]])
func.func @cut(%x: tensor<?x64xbf16>) -> tensor<?x64xf32> {
  %wide = arith.extf %x {kiln.cut} : tensor<?x64xbf16> to tensor<?x64xf32>
  %sum = kiln.reduce sum %wide dims [0] : tensor<?x64xf32> -> tensor<64xf32>
  %b = kiln.broadcast %sum dims [1] like %wide : tensor<64xf32>, tensor<?x64xf32> -> tensor<?x64xf32>
  %y = arith.mulf %wide, %b : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
