// Gradients of keys and values, which one kernel computes, of packed sequences with dropout.
// test/update-golden.sh writes it anew.
// RUN: cd %S && kiln-opt attention_key_gradient.mlir --kiln-canonicalize --kiln-emittable='schedule="#kiln.schedule<attention, queries = 32, keys = 64, stages = 2, blocks = 1, launch = programmatic>"' -mlir-print-debuginfo | kiln-translate --kiln-to-cuda > %t.cu
// RUN: diff -u %S/attention_key_gradient.cu %t.cu
// RUN: %if nvcc %{ %nvcc -std=c++20 -arch=sm_90a -Werror all-warnings -I %device -cubin -o %t.cubin %S/attention_key_gradient.cu %}
func.func @gradient(%do: tensor<8x?x64xf16> {kiln.name = "do"}, %delta: tensor<8x?xf32> {kiln.name = "delta"}, %lse: tensor<8x?xf32> {kiln.name = "lse"}, %q: tensor<8x?x64xf16> {kiln.name = "q"}, %k: tensor<2x?x64xf16> {kiln.name = "k"}, %v: tensor<2x?x64xf16> {kiln.name = "v"}, %qs: tensor<?xi32> {kiln.name = "qs"}, %ks: tensor<?xi32> {kiln.name = "ks"}, %seed: tensor<i64> {kiln.name = "seed"}, %offset: tensor<i64> {kiln.name = "offset"})
    -> (tensor<2x?x64xf16> {kiln.name = "dk"}, tensor<2x?x64xf16> {kiln.name = "dv"}) {
  %dk, %dv = kiln.attention_backward %do, %delta, %lse, %q, %k, %v starts %qs, %ks dropout %seed, %offset p 0.1 {scale = 0.125 : f32, causal = #kiln.causal<first>}
      : (tensor<8x?x64xf16>, tensor<8x?xf32>, tensor<8x?xf32>, tensor<8x?x64xf16>, tensor<2x?x64xf16>, tensor<2x?x64xf16>, tensor<?xi32>, tensor<?xi32>, tensor<i64>, tensor<i64>) -> key tensor<2x?x64xf32> value tensor<2x?x64xf32>
  %dkr = arith.truncf %dk : tensor<2x?x64xf32> to tensor<2x?x64xf16>
  %dvr = arith.truncf %dv : tensor<2x?x64xf32> to tensor<2x?x64xf16>
  return %dkr, %dvr : tensor<2x?x64xf16>, tensor<2x?x64xf16>
}
