// The whole generated text, line by line. test/update-golden.sh writes it anew.
// RUN: cd %S && kiln-opt outlined.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda > %t.cu
// RUN: diff -u %S/outlined.cu %t.cu
// RUN: %if nvcc %{ %nvcc -std=c++20 -arch=sm_90a -Werror all-warnings -I %device -cubin -o %t.cubin %S/outlined.cu %}
// A kernel with thirteen operations of many instructions calls them; one with a few does not.
func.func @outlined(%x: tensor<?x128xf32> {kiln.name = "x"}, %s: tensor<?x128xf32> {kiln.name = "s"}) -> (tensor<?x128xf32> {kiln.name = "y"}) {
  %few = math.sin %s {kiln.cut} : tensor<?x128xf32>
  %a = math.sin %x : tensor<?x128xf32>
  %b = math.cos %a : tensor<?x128xf32>
  %c = arith.divf %few, %b : tensor<?x128xf32>
  %d = arith.mulf %c, %a : tensor<?x128xf32>
  %e = arith.divf %c, %d : tensor<?x128xf32>
  %f = math.erf %e : tensor<?x128xf32>
  %g = math.powf %b, %f : tensor<?x128xf32>
  %h = math.log2 %g : tensor<?x128xf32>
  %i = math.log %b : tensor<?x128xf32>
  %j = math.expm1 %i : tensor<?x128xf32>
  %k = math.rsqrt %b : tensor<?x128xf32>
  %l = math.sin %j {kiln.near} : tensor<?x128xf32>
  %m = math.cos %l {kiln.near} : tensor<?x128xf32>
  %n = arith.addf %m, %k : tensor<?x128xf32>
  %o = math.sin %b : tensor<?x128xf32>
  %q = arith.mulf %h, %o : tensor<?x128xf32>
  %p = arith.addf %q, %n : tensor<?x128xf32>
  return %p : tensor<?x128xf32>
}
