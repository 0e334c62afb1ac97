// What one kernel would store for another is computed again there, if that moves fewer bytes.
// RUN: split-file %s %t
// RUN: kiln-opt %t/again.mlir -split-input-file --kiln-fuse | FileCheck %t/again.mlir
// RUN: kiln-opt %t/column.mlir --kiln-canonicalize --kiln-differentiate --kiln-canonicalize --kiln-fuse --kiln-schedule | FileCheck %t/column.mlir

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

//--- column.mlir
// Nothing is computed again if a kernel of rows would then have to store a column.
// CHECK: kiln.kernel "f_backward_0"
// CHECK: kiln.kernel "f_backward_1"
func.func @f(%x1: tensor<2xf32>, %x4: tensor<?x2xbf16>) -> (tensor<?x2xf32>) {
  %x4_f = arith.extf %x4 : tensor<?x2xbf16> to tensor<?x2xf32>
  %v7, %v7_m, %v7_s = kiln.layer_norm %x4_f, %x1, %x1 {eps = 1.0e-2 : f32} : (tensor<?x2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<?x2xf32>, tensor<?xf32>, tensor<?xf32>)
  %v10 = arith.mulf %x1, %x1 : tensor<2xf32>
  %v15 = kiln.reduce sum %v7 dims [0, 1] : tensor<?x2xf32> -> tensor<f32>
  %v18, %v18_s = kiln.rms_norm %v7, %v10 {eps = 1.0e-2 : f32} : (tensor<?x2xf32>, tensor<2xf32>) -> (tensor<?x2xf32>, tensor<?xf32>)
  %v28_b = kiln.broadcast %v15 dims [] like %v18 : tensor<f32>, tensor<?x2xf32> -> tensor<?x2xf32>
  %v28 = arith.addf %v28_b, %v18 : tensor<?x2xf32>
  return %v28 : tensor<?x2xf32>
}
