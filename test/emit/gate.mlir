// The whole generated text, line by line. test/update-golden.sh writes it anew.
// RUN: cd %S && kiln-opt gate.mlir --kiln-emittable='schedule="#kiln.schedule<lanes = 16, vector = 8, rows = 1, threads = 128, blocks = 8, grid = one_shot, keep = registers, launch = plain>"' -mlir-print-debuginfo | kiln-translate --kiln-to-cuda > %t.cu
// RUN: diff -u %S/gate.cu %t.cu
// RUN: %if nvcc %{ %nvcc -std=c++20 -arch=sm_90a -Werror all-warnings -I %device -cubin -o %t.cubin %S/gate.cu %}
func.func @gate(%x: tensor<?x128xbf16> {kiln.name = "x"}, %g: tensor<?x128xbf16> {kiln.name = "g"}, %bias: tensor<128xf32> {kiln.name = "bias"})
    -> (tensor<?x128xbf16> {kiln.name = "y"}) {
  %xf = arith.extf %x : tensor<?x128xbf16> to tensor<?x128xf32>
  %gf = arith.extf %g : tensor<?x128xbf16> to tensor<?x128xf32>
  %b = kiln.broadcast %bias dims [1] like %xf : tensor<128xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
  %t = arith.addf %gf, %b : tensor<?x128xf32>
  %one = arith.constant dense<1.0> : tensor<f32>
  %ones = kiln.broadcast %one dims [] like %xf : tensor<f32>, tensor<?x128xf32> -> tensor<?x128xf32>
  %n = arith.negf %t : tensor<?x128xf32>
  %e = math.exp %n : tensor<?x128xf32>
  %d = arith.addf %e, %ones : tensor<?x128xf32>
  %y = arith.divf %xf, %d : tensor<?x128xf32>
  %o = arith.truncf %y : tensor<?x128xf32> to tensor<?x128xbf16>
  return %o : tensor<?x128xbf16>
}
