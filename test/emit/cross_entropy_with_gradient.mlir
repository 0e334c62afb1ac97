// The whole generated text, line by line. test/update-golden.sh writes it anew.
// RUN: cd %S && kiln-opt cross_entropy_with_gradient.mlir --kiln-canonicalize --kiln-differentiate=together --kiln-emittable='function=cross_entropy_with_gradient schedule="#kiln.schedule<lanes = 32, vector = 8, rows = 1, threads = 128, blocks = 4, grid = one_shot, keep = registers, launch = programmatic>"' -mlir-print-debuginfo | kiln-translate --kiln-to-cuda > %t.cu
// RUN: diff -u %S/cross_entropy_with_gradient.cu %t.cu
// RUN: %if nvcc %{ %nvcc -std=c++20 -arch=sm_90a -Werror all-warnings -I %device -cubin -o %t.cubin %S/cross_entropy_with_gradient.cu %}
func.func @cross_entropy(%x: tensor<?x1000xbf16> {kiln.name = "x"}, %target: tensor<?xi64> {kiln.name = "target"})
    -> (tensor<?xf32> {kiln.name = "loss"}, tensor<?xf32> {kiln.name = "lse", kiln.gradient = false}) {
  %loss, %lse = kiln.cross_entropy %x, %target : (tensor<?x1000xbf16>, tensor<?xi64>) -> (tensor<?xf32>, tensor<?xf32>)
  return %loss, %lse : tensor<?xf32>, tensor<?xf32>
}
