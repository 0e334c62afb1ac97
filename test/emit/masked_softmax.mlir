// The whole generated text, line by line. test/update-golden.sh writes it anew.
// RUN: cd %S && kiln-opt masked_softmax.mlir --kiln-emittable='schedule="#kiln.schedule<lanes = 32, vector = 8, rows = 1, threads = 128, blocks = 8, grid = one_shot, keep = registers, launch = programmatic>"' -mlir-print-debuginfo | kiln-translate --kiln-to-cuda > %t.cu
// RUN: diff -u %S/masked_softmax.cu %t.cu
// RUN: %if nvcc %{ %nvcc -std=c++20 -arch=sm_90a -Werror all-warnings -I %device -cubin -o %t.cubin %S/masked_softmax.cu %}
func.func @masked_softmax(%s: tensor<?x256xbf16> {kiln.name = "s"}, %mask: tensor<?x256xi1> {kiln.name = "mask"}) -> (tensor<?x256xbf16> {kiln.name = "p"}) {
  %p = kiln.softmax %s mask %mask {scale = 0.125 : f32} : tensor<?x256xbf16>, tensor<?x256xi1> -> tensor<?x256xbf16>
  return %p : tensor<?x256xbf16>
}
