// Tiles through a ring, x ahead of the predecessor. test/update-golden.sh writes it anew.
// RUN: cd %S && kiln-opt layer_norm_backward_ring.mlir --kiln-canonicalize --kiln-differentiate --kiln-emittable='function=layer_norm_backward schedule="#kiln.schedule<lanes = 16, vector = 8, rows = 2, threads = 256, blocks = 2, grid = resident, keep = ring, launch = older_first, stages = 5>"' -mlir-print-debuginfo | kiln-translate --kiln-to-cuda > %t.cu
// RUN: diff -u %S/layer_norm_backward_ring.cu %t.cu
// RUN: %if nvcc %{ %nvcc -std=c++20 -arch=sm_90a -Werror all-warnings -I %device -cubin -o %t.cubin %S/layer_norm_backward_ring.cu %}
func.func @layer_norm(%x: tensor<?x128xbf16> {kiln.name = "x"}, %gamma: tensor<128xf32> {kiln.name = "gamma"}, %beta: tensor<128xf32> {kiln.name = "beta"})
    -> (tensor<?x128xbf16> {kiln.name = "y"}, tensor<?xf32> {kiln.name = "mean", kiln.gradient = false}, tensor<?xf32> {kiln.name = "rstd", kiln.gradient = false}) {
  %y, %mean, %rstd = kiln.layer_norm %x, %gamma, %beta
      : (tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32>) -> (tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>)
  return %y, %mean, %rstd : tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>
}
