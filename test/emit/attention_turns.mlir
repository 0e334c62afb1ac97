// All gradients of causal attention of grouped heads, whose blocks take turns.
// test/update-golden.sh writes it anew.
// RUN: cd %S && kiln-opt attention_turns.mlir --kiln-canonicalize --kiln-emittable='schedule="#kiln.schedule<attention, queries = 128, keys = 128, stages = 2, blocks = 1, launch = programmatic, products = warpgroups>"' -mlir-print-debuginfo | kiln-translate --kiln-to-cuda > %t.cu
// RUN: diff -u %S/attention_turns.cu %t.cu
// RUN: %if nvcc %{ %nvcc -std=c++20 -arch=sm_90a -Werror all-warnings -I %device -cubin -o %t.cubin %S/attention_turns.cu %}
func.func @gradients(%do: tensor<?x8x?x64xbf16> {kiln.name = "do"}, %delta: tensor<?x8x?xf32> {kiln.name = "delta"}, %lse: tensor<?x8x?xf32> {kiln.name = "lse"}, %q: tensor<?x8x?x64xbf16> {kiln.name = "q"}, %k: tensor<?x2x?x64xbf16> {kiln.name = "k"}, %v: tensor<?x2x?x64xbf16> {kiln.name = "v"})
    -> (tensor<?x8x?x64xbf16> {kiln.name = "dq"}, tensor<?x2x?x64xbf16> {kiln.name = "dk"}, tensor<?x2x?x64xbf16> {kiln.name = "dv"}) {
  %dq, %dk, %dv = kiln.attention_backward %do, %delta, %lse, %q, %k, %v {scale = 0.125 : f32, causal = #kiln.causal<last>}
      : (tensor<?x8x?x64xbf16>, tensor<?x8x?xf32>, tensor<?x8x?xf32>, tensor<?x8x?x64xbf16>, tensor<?x2x?x64xbf16>, tensor<?x2x?x64xbf16>) -> query tensor<?x8x?x64xbf16> key tensor<?x2x?x64xbf16> value tensor<?x2x?x64xbf16>
  return %dq, %dk, %dv : tensor<?x8x?x64xbf16>, tensor<?x2x?x64xbf16>, tensor<?x2x?x64xbf16>
}
