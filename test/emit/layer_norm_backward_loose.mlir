// Rows of an odd width through a ring: tiles begin and end anywhere. test/update-golden.sh writes it anew.
// RUN: cd %S && kiln-opt layer_norm_backward_loose.mlir --kiln-canonicalize --kiln-differentiate --kiln-emittable='function=layer_norm_backward schedule="#kiln.schedule<lanes = 256, vector = 1, rows = 1, threads = 256, blocks = 2, grid = resident, keep = ring, launch = older_first, columns = shared, stages = 3>"' -mlir-print-debuginfo | kiln-translate --kiln-to-cuda > %t.cu
// RUN: diff -u %S/layer_norm_backward_loose.cu %t.cu
// RUN: %if nvcc %{ %nvcc -std=c++20 -arch=sm_90a -Werror all-warnings -I %device -cubin -o %t.cubin %S/layer_norm_backward_loose.cu %}
func.func @layer_norm(%x: tensor<?x4095xbf16> {kiln.name = "x", kiln.older}, %gamma: tensor<4095xf32> {kiln.name = "gamma"}, %beta: tensor<4095xf32> {kiln.name = "beta"})
    -> (tensor<?x4095xbf16> {kiln.name = "y"}, tensor<?xf32> {kiln.name = "mean", kiln.gradient = false}, tensor<?xf32> {kiln.name = "rstd", kiln.gradient = false}) {
  %y, %mean, %rstd = kiln.layer_norm %x, %gamma, %beta
      : (tensor<?x4095xbf16>, tensor<4095xf32>, tensor<4095xf32>) -> (tensor<?x4095xbf16>, tensor<?xf32>, tensor<?xf32>)
  return %y, %mean, %rstd : tensor<?x4095xbf16>, tensor<?xf32>, tensor<?xf32>
}
