// Vectors of rows of an odd width overlap their ends, through a ring, beside weights in registers.
// test/update-golden.sh writes it anew.
// RUN: cd %S && kiln-opt layer_norm_backward_overlap.mlir --kiln-canonicalize --kiln-differentiate --kiln-emittable='function=layer_norm_backward schedule="#kiln.schedule<lanes = 224, vector = 4, rows = 1, threads = 224, blocks = 2, grid = resident, keep = ring, launch = older_first, stages = 2>"' -mlir-print-debuginfo | kiln-translate --kiln-to-cuda > %t.cu
// RUN: diff -u %S/layer_norm_backward_overlap.cu %t.cu
// RUN: %if nvcc %{ %nvcc -std=c++20 -arch=sm_90a -Werror all-warnings -I %device -cubin -o %t.cubin %S/layer_norm_backward_overlap.cu %}
func.func @layer_norm(%x: tensor<?x4095xbf16> {kiln.name = "x", kiln.older}, %gamma: tensor<4095xf32> {kiln.name = "gamma"}, %beta: tensor<4095xf32> {kiln.name = "beta"})
    -> (tensor<?x4095xbf16> {kiln.name = "y"}, tensor<?xf32> {kiln.name = "mean", kiln.gradient = false}, tensor<?xf32> {kiln.name = "rstd", kiln.gradient = false}) {
  %y, %mean, %rstd = kiln.layer_norm %x, %gamma, %beta
      : (tensor<?x4095xbf16>, tensor<4095xf32>, tensor<4095xf32>) -> (tensor<?x4095xbf16>, tensor<?xf32>, tensor<?xf32>)
  return %y, %mean, %rstd : tensor<?x4095xbf16>, tensor<?xf32>, tensor<?xf32>
}
