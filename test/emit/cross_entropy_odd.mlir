// A vocabulary of odd size: vectors are those of memory. test/update-golden.sh writes it anew.
// RUN: cd %S && kiln-opt cross_entropy_odd.mlir --kiln-canonicalize --kiln-emittable='schedule="#kiln.schedule<lanes = 64, vector = 8, rows = 1, threads = 64, blocks = 8, grid = one_shot, keep = shared, launch = programmatic>"' -mlir-print-debuginfo | kiln-translate --kiln-to-cuda > %t.cu
// RUN: diff -u %S/cross_entropy_odd.cu %t.cu
// RUN: %if nvcc %{ %nvcc -std=c++20 -arch=sm_90a -Werror all-warnings -I %device -cubin -o %t.cubin %S/cross_entropy_odd.cu %}
func.func @cross_entropy(%x: tensor<?x1001xbf16> {kiln.name = "x"}, %target: tensor<?xi64> {kiln.name = "target"})
    -> (tensor<?xf32> {kiln.name = "loss"}, tensor<?xf32> {kiln.name = "lse"}) {
  %loss, %lse = kiln.cross_entropy %x, %target : (tensor<?x1001xbf16>, tensor<?xi64>) -> (tensor<?xf32>, tensor<?xf32>)
  return %loss, %lse : tensor<?xf32>, tensor<?xf32>
}
