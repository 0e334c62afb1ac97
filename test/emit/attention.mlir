// Attention with all that hides places but packing: two heads of queries share one of keys, a bias of
// all sequences, a mask of keys, a window. test/update-golden.sh writes it anew.
// RUN: cd %S && kiln-opt attention.mlir --kiln-canonicalize --kiln-emittable='schedule="#kiln.schedule<attention, queries = 64, keys = 64, stages = 2, blocks = 1, launch = programmatic>"' -mlir-print-debuginfo | kiln-translate --kiln-to-cuda > %t.cu
// RUN: diff -u %S/attention.cu %t.cu
// RUN: %if nvcc %{ %nvcc -std=c++20 -arch=sm_90a -Werror all-warnings -I %device -cubin -o %t.cubin %S/attention.cu %}
func.func @attention(%q: tensor<?x8x?x64xbf16> {kiln.name = "q"}, %k: tensor<?x4x?x64xbf16> {kiln.name = "k"}, %v: tensor<?x4x?x64xbf16> {kiln.name = "v"}, %bias: tensor<1x8x?x?xf32> {kiln.name = "bias"}, %mask: tensor<?x1x1x?xi1> {kiln.name = "mask"})
    -> (tensor<?x8x?x64xbf16> {kiln.name = "o"}, tensor<?x8x?xf32> {kiln.name = "lse"}) {
  %o, %lse = kiln.attention %q, %k, %v bias %bias mask %mask {scale = 0.125 : f32, causal = #kiln.causal<last>, window_left = 128}
      : (tensor<?x8x?x64xbf16>, tensor<?x4x?x64xbf16>, tensor<?x4x?x64xbf16>, tensor<1x8x?x?xf32>, tensor<?x1x1x?xi1>) -> (tensor<?x8x?x64xbf16>, tensor<?x8x?xf32>)
  return %o, %lse : tensor<?x8x?x64xbf16>, tensor<?x8x?xf32>
}
