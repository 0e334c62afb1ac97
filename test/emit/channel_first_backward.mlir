// The backward of a LayerNorm stored channel-first loads its gradient so. The whole generated text.
// RUN: cd %S && kiln-opt channel_first_backward.mlir --kiln-canonicalize --kiln-differentiate --kiln-emittable='function=channel_first_backward schedule="#kiln.schedule<lanes = 8, vector = 8, rows = 2, threads = 128, blocks = 4, grid = resident, keep = registers, launch = programmatic>"' -mlir-print-debuginfo | kiln-translate --kiln-to-cuda > %t.cu
// RUN: diff -u %S/channel_first_backward.cu %t.cu
// RUN: %if nvcc %{ %nvcc -std=c++20 -arch=sm_90a -Werror all-warnings -I %device -cubin -o %t.cubin %S/channel_first_backward.cu %}
func.func @channel_first(%x: tensor<?x?x64xbf16> {kiln.name = "x"}, %gamma: tensor<64xf32> {kiln.name = "gamma"}, %beta: tensor<64xf32> {kiln.name = "beta"})
    -> (tensor<64x?x?xbf16> {kiln.name = "y"}, tensor<?x?xf32> {kiln.name = "mean", kiln.gradient = false}, tensor<?x?xf32> {kiln.name = "rstd", kiln.gradient = false}) {
  %n, %mean, %rstd = kiln.layer_norm %x, %gamma, %beta
      : (tensor<?x?x64xbf16>, tensor<64xf32>, tensor<64xf32>) -> (tensor<?x?x64xbf16>, tensor<?x?xf32>, tensor<?x?xf32>)
  %y = kiln.transpose %n [2, 0, 1] : tensor<?x?x64xbf16> -> tensor<64x?x?xbf16>
  return %y, %mean, %rstd : tensor<64x?x?xbf16>, tensor<?x?xf32>, tensor<?x?xf32>
}
