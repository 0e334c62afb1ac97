// Causal attention of grouped heads by blocks that stay, whose three warpgroups take turns.
// test/update-golden.sh writes it anew.
// RUN: cd %S && kiln-opt attention_resident.mlir --kiln-canonicalize --kiln-emittable='schedule="#kiln.schedule<attention, queries = 192, keys = 96, stages = 3, blocks = 1, launch = programmatic, products = warpgroups, grid = resident>"' -mlir-print-debuginfo | kiln-translate --kiln-to-cuda > %t.cu
// RUN: diff -u %S/attention_resident.cu %t.cu
// RUN: %if nvcc %{ %nvcc -std=c++20 -arch=sm_90a -Werror all-warnings -I %device -cubin -o %t.cubin %S/attention_resident.cu %}
func.func @attend(%q: tensor<?x8x?x64xbf16> {kiln.name = "q"}, %k: tensor<?x2x?x64xbf16> {kiln.name = "k"}, %v: tensor<?x2x?x64xbf16> {kiln.name = "v"})
    -> (tensor<?x8x?x64xbf16> {kiln.name = "o"}, tensor<?x8x?xf32> {kiln.name = "lse"}) {
  %o, %lse = kiln.attention %q, %k, %v {scale = 0.125 : f32, causal = #kiln.causal<last>}
      : (tensor<?x8x?x64xbf16>, tensor<?x2x?x64xbf16>, tensor<?x2x?x64xbf16>) -> (tensor<?x8x?x64xbf16>, tensor<?x8x?xf32>)
  return %o, %lse : tensor<?x8x?x64xbf16>, tensor<?x8x?xf32>
}
