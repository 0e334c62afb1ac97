// Lists in two parts, line by line: each launch works on both, and each part's blocks on its own. A
// gradient of bf16 is summed eight elements at a time, one of fp32 four.
// test/update-golden.sh writes the text anew.
// RUN: cd %S && kiln-opt list_parts.mlir --kiln-emittable -mlir-print-debuginfo | kiln-translate --kiln-to-cuda > %t.cu
// RUN: diff -u %S/list_parts.cu %t.cu
// RUN: %if nvcc %{ %nvcc -std=c++20 -arch=sm_90a -Werror all-warnings -I %device -cubin -o %t.cubin %S/list_parts.cu %}
func.func @step(%p: tensor<?xf32> {kiln.list, kiln.name = "p"}, %g: tensor<?xbf16> {kiln.list, kiln.name = "g"},
                %q: tensor<?xf32> {kiln.list = 1, kiln.name = "q"}, %h: tensor<?xf32> {kiln.list = 1, kiln.name = "h"},
                %lr: tensor<f32> {kiln.name = "lr"}, %count: tensor<f32> {kiln.name = "count"})
    -> (tensor<?xf32> {kiln.list, kiln.name = "new_p"}, tensor<?xf32> {kiln.list = 1, kiln.name = "new_q"}, tensor<f32> {kiln.name = "norm"}, tensor<f32> {kiln.name = "next"}) {
  %wide = arith.extf %g : tensor<?xbf16> to tensor<?xf32>
  %square = arith.mulf %wide, %wide : tensor<?xf32>
  %sum_g = kiln.reduce sum %square dims [0] : tensor<?xf32> -> tensor<f32>
  %square_h = arith.mulf %h, %h : tensor<?xf32>
  %sum_h = kiln.reduce sum %square_h dims [0] : tensor<?xf32> -> tensor<f32>
  %sum = arith.addf %sum_g, %sum_h : tensor<f32>
  %norm = math.sqrt %sum : tensor<f32>
  %one = arith.constant dense<1.0> : tensor<f32>
  %next = arith.addf %count, %one : tensor<f32>
  %ratio = arith.divf %lr, %norm : tensor<f32>
  %scale = arith.divf %ratio, %next : tensor<f32>
  %scales = kiln.broadcast %scale dims [] like %p : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
  %step_p = arith.mulf %wide, %scales : tensor<?xf32>
  %new_p = arith.subf %p, %step_p : tensor<?xf32>
  %others = kiln.broadcast %scale dims [] like %q : tensor<f32>, tensor<?xf32> -> tensor<?xf32>
  %step_q = arith.mulf %h, %others : tensor<?xf32>
  %new_q = arith.subf %q, %step_q : tensor<?xf32>
  return %new_p, %new_q, %norm, %next : tensor<?xf32>, tensor<?xf32>, tensor<f32>, tensor<f32>
}
