// A forward of AlphaFold's triangle attention, whose blocks hold the bias that the rows share.
// test/update-golden.sh writes it anew.
// RUN: cd %S && kiln-opt attention_held_bias.mlir --kiln-canonicalize --kiln-emittable='schedule="#kiln.schedule<attention, queries = 128, keys = 64, stages = 6, blocks = 1, launch = programmatic, groups = 16, products = warpgroups, bias = held, side = 2>"' -mlir-print-debuginfo | kiln-translate --kiln-to-cuda > %t.cu
// RUN: diff -u %S/attention_held_bias.cu %t.cu
// RUN: %if nvcc %{ %nvcc -std=c++20 -arch=sm_90a -Werror all-warnings -I %device -cubin -o %t.cubin %S/attention_held_bias.cu %}
func.func @triangle(%q: tensor<?x4x256x32xbf16> {kiln.name = "q"}, %k: tensor<?x4x256x32xbf16> {kiln.name = "k"}, %v: tensor<?x4x256x32xbf16> {kiln.name = "v"}, %bias: tensor<1x4x256x256xbf16> {kiln.name = "bias"}, %mask: tensor<?x1x1x256xi1> {kiln.name = "mask"})
    -> (tensor<?x4x256x32xbf16> {kiln.name = "o"}, tensor<?x4x256xf32> {kiln.name = "lse"}) {
  %o, %lse = kiln.attention %q, %k, %v bias %bias mask %mask {scale = 0.17677669 : f32}
      : (tensor<?x4x256x32xbf16>, tensor<?x4x256x32xbf16>, tensor<?x4x256x32xbf16>, tensor<1x4x256x256xbf16>, tensor<?x1x1x256xi1>) -> (tensor<?x4x256x32xbf16>, tensor<?x4x256xf32>)
  return %o, %lse : tensor<?x4x256x32xbf16>, tensor<?x4x256xf32>
}
