// Rows that two blocks share: each holds half, and hands what it has of a reduction to the other.
// test/update-golden.sh writes it anew.
// RUN: cd %S && kiln-opt softmax_cluster.mlir --kiln-canonicalize --kiln-emittable='schedule="#kiln.schedule<lanes = 640, vector = 8, rows = 1, threads = 320, blocks = 2, grid = one_shot, keep = shared, launch = programmatic, cluster = 2>"' -mlir-print-debuginfo | kiln-translate --kiln-to-cuda > %t.cu
// RUN: diff -u %S/softmax_cluster.cu %t.cu
// RUN: %if nvcc %{ %nvcc -std=c++20 -arch=sm_90a -Werror all-warnings -I %device -cubin -o %t.cubin %S/softmax_cluster.cu %}
func.func @softmax(%x: tensor<?x50304xbf16> {kiln.name = "x"}) -> (tensor<?x50304xbf16> {kiln.name = "y"}) {
  %y = kiln.softmax %x : tensor<?x50304xbf16> -> tensor<?x50304xbf16>
  return %y : tensor<?x50304xbf16>
}
