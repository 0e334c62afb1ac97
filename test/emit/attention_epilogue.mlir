// Attention with a gate, whose bias is each head's, and dropout behind it: the output is stored as it is,
// too. Results of 16 bits take the fast exponential and reciprocal. test/update-golden.sh writes it anew.
// RUN: cd %S && kiln-opt attention_epilogue.mlir --kiln-canonicalize --kiln-emittable='schedule="#kiln.schedule<attention, queries = 64, keys = 64, stages = 2, blocks = 1, launch = programmatic>"' -mlir-print-debuginfo | kiln-translate --kiln-to-cuda > %t.cu
// RUN: diff -u %S/attention_epilogue.cu %t.cu
// RUN: %if nvcc %{ %nvcc -std=c++20 -arch=sm_90a -Werror all-warnings -I %device -cubin -o %t.cubin %S/attention_epilogue.cu %}
func.func @attention(%q: tensor<?x8x?x64xbf16> {kiln.name = "q"}, %k: tensor<?x8x?x64xbf16> {kiln.name = "k"}, %v: tensor<?x8x?x64xbf16> {kiln.name = "v"}, %g: tensor<?x8x?x64xbf16> {kiln.name = "g"}, %bias: tensor<8x64xf32> {kiln.name = "bias"}, %seed: tensor<i64> {kiln.name = "seed"}, %offset: tensor<i64> {kiln.name = "offset"})
    -> (tensor<?x8x?x64xbf16> {kiln.name = "o"}, tensor<?x8x?x64xbf16> {kiln.name = "y"}, tensor<?x8x?xf32> {kiln.name = "lse"}) {
  %o, %lse = kiln.attention %q, %k, %v {scale = 0.125 : f32}
      : (tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>) -> (tensor<?x8x?x64xbf16>, tensor<?x8x?xf32>)
  %wide = arith.extf %g : tensor<?x8x?x64xbf16> to tensor<?x8x?x64xf32>
  %same = kiln.broadcast %bias dims [1, 3] like %g : tensor<8x64xf32>, tensor<?x8x?x64xbf16> -> tensor<?x8x?x64xf32>
  %x = arith.addf %wide, %same : tensor<?x8x?x64xf32>
  %open = kiln.sigmoid %x : tensor<?x8x?x64xf32> -> tensor<?x8x?x64xf32>
  %of = arith.extf %o : tensor<?x8x?x64xbf16> to tensor<?x8x?x64xf32>
  %gated = arith.mulf %of, %open : tensor<?x8x?x64xf32>
  %kept = kiln.dropout %gated, %seed, %offset p 0.1 : tensor<?x8x?x64xf32> -> tensor<?x8x?x64xf32>
  %y = arith.truncf %kept : tensor<?x8x?x64xf32> to tensor<?x8x?x64xbf16>
  return %o, %y, %lse : tensor<?x8x?x64xbf16>, tensor<?x8x?x64xbf16>, tensor<?x8x?xf32>
}
