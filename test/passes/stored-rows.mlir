// Values of rows that are stored along rows, and minus signs that meet: texts that were drawn.
// RUN: split-file %s %t
// RUN: kiln-opt %t/rounded.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/rounded.mlir
// RUN: kiln-opt %t/negative.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda | FileCheck %t/negative.mlir

//--- rounded.mlir
// A value of a row is rounded where it is stored, so that what is computed is the wide one.
// CHECK: float [[VALUE:row_r]][Tile::rows];
// CHECK: [[VALUE]][r] =
// CHECK: Vec<float, Tile::vector> y_c;
// CHECK: y_c[i] = [[VALUE]][r];
// CHECK: store<
func.func @mean_gradient(%dy: tensor<?xf32>, %x: tensor<?x64xbf16>) -> (tensor<?x64xbf16> {kiln.name = "y"}) {
  %n = arith.constant dense<6.4e+01> : tensor<f32>
  %ns = kiln.broadcast %n dims [] like %dy : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
  %d = arith.divf %dy, %ns : tensor<?xf32>
  %b = kiln.broadcast %d dims [0] like %x : tensor<?xf32>, tensor<?x64xbf16> -> tensor<?x64xf32>
  %y = arith.truncf %b : tensor<?x64xf32> to tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

//--- negative.mlir
// The sigmoid's own minus is in front of one that was there.
// CHECK-NOT: --
// CHECK: expf(-(-x_
// CHECK-NOT: --
func.func @negative(%x: tensor<?x64xf32> {kiln.name = "x"}) -> (tensor<?x64xf32> {kiln.name = "y"}) {
  %n = arith.negf %x : tensor<?x64xf32>
  %y = kiln.sigmoid %n : tensor<?x64xf32> -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
