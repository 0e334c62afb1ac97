// The whole generated text, line by line. test/update-golden.sh writes it anew.
// RUN: cd %S && kiln-opt adamw.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda > %t.cu
// RUN: diff -u %S/adamw.cu %t.cu
// RUN: %if nvcc %{ %nvcc -std=c++20 -arch=sm_90a -Werror all-warnings -I %device -cubin -o %t.cubin %S/adamw.cu %}
func.func @adamw(%p: tensor<?xf32> {kiln.list, kiln.name = "p"}, %g: tensor<?xbf16> {kiln.list, kiln.name = "g"}, %m: tensor<?xf32> {kiln.list, kiln.name = "m"}, %v: tensor<?xf32> {kiln.list, kiln.name = "v"},
                 %lr: tensor<f32> {kiln.name = "lr"}, %step: tensor<f32> {kiln.name = "step"}, %max_norm: tensor<f32> {kiln.name = "max_norm"})
    -> (tensor<?xf32> {kiln.list, kiln.name = "new_p"}, tensor<?xf32> {kiln.list, kiln.name = "new_m"}, tensor<?xf32> {kiln.list, kiln.name = "new_v"}, tensor<?xbf16> {kiln.list, kiln.name = "copy"}, tensor<f32> {kiln.name = "norm"}) {
  %gf = arith.extf %g : tensor<?xbf16> to tensor<?xf32>
  %square = arith.mulf %gf, %gf : tensor<?xf32>
  %sum = kiln.reduce sum %square dims [0] : tensor<?xf32> -> tensor<f32>
  %norm = math.sqrt %sum : tensor<f32>
  %tiny = arith.constant dense<1.0e-6> : tensor<f32>
  %one = arith.constant dense<1.0> : tensor<f32>
  %above = arith.addf %norm, %tiny : tensor<f32>
  %ratio = arith.divf %max_norm, %above : tensor<f32>
  %factor = arith.minimumf %ratio, %one : tensor<f32>
  %new_p, %new_m, %new_v, %copy = kiln.adamw %p, %g, %m, %v, %lr, %step, %factor {weight_decay = 0.1}
      : (tensor<?xf32>, tensor<?xbf16>, tensor<?xf32>, tensor<?xf32>, tensor<f32>, tensor<f32>, tensor<f32>)
      -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xbf16>)
  return %new_p, %new_m, %new_v, %copy, %norm : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xbf16>, tensor<f32>
}
