// kiln-differentiate: what the backward takes, what it gives, and what the forward saves for it.
// RUN: split-file %s %t
// RUN: kiln-opt %t/derived.mlir -split-input-file --kiln-canonicalize --kiln-differentiate | FileCheck %t/derived.mlir
// RUN: kiln-opt %t/errors.mlir -split-input-file --kiln-differentiate -verify-diagnostics -o /dev/null
// RUN: kiln-opt %t/two.mlir --kiln-differentiate=function=second | FileCheck %t/two.mlir
// RUN: kiln-opt %t/two.mlir --kiln-differentiate="function=second older=false" | FileCheck %t/two.mlir --check-prefix=WAITS

//--- derived.mlir
// LayerNorm saves nothing of its own: x and gamma are arguments, mean and rstd results.
// CHECK-LABEL: func.func @layer_norm(
// CHECK-NOT: func.func @layer_norm_forward
// CHECK: func.func @layer_norm_backward(%[[X:.*]]: tensor<?x128xbf16> {kiln.layout = #kiln.layout<strides = [256, 1]>, kiln.name = "x", kiln.older}, %[[G:.*]]: tensor<128xf32> {kiln.name = "gamma", kiln.older}, %[[M:.*]]: tensor<?xf32> {kiln.name = "mean"}, %[[R:.*]]: tensor<?xf32> {kiln.name = "rstd"}, %[[DY:.*]]: tensor<?x128xbf16> {kiln.name = "dy"})
// CHECK-SAME: -> (tensor<?x128xbf16> {kiln.name = "dx"}, tensor<128xf32> {kiln.name = "dgamma"}, tensor<128xf32> {kiln.name = "dbeta"})
// CHECK-COUNT-2: kiln.reduce mean {{.*}} dims [1]
// CHECK: kiln.reduce sum {{.*}} dims [0] : tensor<?x128xf32> -> tensor<128xf32>
// CHECK: kiln.reduce sum {{.*}} dims [0] : tensor<?x128xf32> -> tensor<128xf32>
// CHECK-NOT: kiln.reduce
// CHECK: return
func.func @layer_norm(%x: tensor<?x128xbf16> {kiln.name = "x", kiln.layout = #kiln.layout<strides = [256, 1]>}, %g: tensor<128xf32> {kiln.name = "gamma"}, %b: tensor<128xf32> {kiln.name = "beta"})
    -> (tensor<?x128xbf16> {kiln.name = "y"}, tensor<?xf32> {kiln.name = "mean", kiln.gradient = false}, tensor<?xf32> {kiln.name = "rstd", kiln.gradient = false}) {
  %y, %m, %r = kiln.layer_norm %x, %g, %b : (tensor<?x128xbf16>, tensor<128xf32>, tensor<128xf32>) -> (tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>)
  return %y, %m, %r : tensor<?x128xbf16>, tensor<?xf32>, tensor<?xf32>
}
// -----
// A LayerNorm that does not return its statistics gets a forward that returns two numbers a row,
// mean and variance: nothing of full size.
// CHECK-LABEL: func.func @alone_forward
// CHECK-SAME: -> (tensor<?x128xf32> {kiln.name = "y"}, tensor<?xf32> {kiln.name = "mean"}, tensor<?xf32> {kiln.name = "saved"})
// CHECK-LABEL: func.func @alone_backward
// CHECK-SAME: kiln.name = "x", kiln.older}, {{.*}}tensor<?xf32> {kiln.name = "mean"}, {{.*}}tensor<?xf32> {kiln.name = "saved"}, {{.*}}kiln.name = "dy"})
// CHECK: math.rsqrt
func.func @alone(%x: tensor<?x128xf32> {kiln.name = "x"}) -> (tensor<?x128xf32> {kiln.name = "y"}) {
  %y, %m, %r = kiln.layer_norm %x : (tensor<?x128xf32>) -> (tensor<?x128xf32>, tensor<?xf32>, tensor<?xf32>)
  return %y : tensor<?x128xf32>
}
// -----
// gelu in scalar math: only x is read again, erf is computed again.
// CHECK-LABEL: func.func @gelu(
// CHECK-NOT: @gelu_forward
// CHECK: func.func @gelu_backward(%{{.*}}: tensor<?x64xf32> {kiln.name = "x", kiln.older}, %{{.*}}: tensor<?x64xf32> {kiln.name = "dy"}) -> (tensor<?x64xf32> {kiln.name = "dx"})
// CHECK-DAG: math.erf
// CHECK-DAG: math.exp
// CHECK: return
func.func @gelu(%x: tensor<?x64xf32> {kiln.name = "x"}) -> (tensor<?x64xf32> {kiln.name = "y"}) {
  %h = arith.constant dense<0.5> : tensor<f32>
  %s = arith.constant dense<0.70710678> : tensor<f32>
  %o = arith.constant dense<1.0> : tensor<f32>
  %half = kiln.broadcast %h dims [] like %x : tensor<f32>, tensor<?x64xf32> -> tensor<?x64xf32>
  %scale = kiln.broadcast %s dims [] like %x : tensor<f32>, tensor<?x64xf32> -> tensor<?x64xf32>
  %one = kiln.broadcast %o dims [] like %x : tensor<f32>, tensor<?x64xf32> -> tensor<?x64xf32>
  %a = arith.mulf %x, %scale : tensor<?x64xf32>
  %e = math.erf %a : tensor<?x64xf32>
  %p = arith.addf %e, %one : tensor<?x64xf32>
  %q = arith.mulf %p, %half : tensor<?x64xf32>
  %y = arith.mulf %x, %q : tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
// -----
// The gate reads its arguments again rather than saving anything; the bias gets a column sum.
// CHECK-LABEL: func.func @gate(
// CHECK-NOT: @gate_forward
// CHECK: func.func @gate_backward(%{{.*}}: tensor<?x8xbf16> {kiln.name = "x", kiln.older}, %{{.*}}: tensor<?x8xbf16> {kiln.name = "g", kiln.older}, %{{.*}}: tensor<8xf32> {kiln.name = "bias", kiln.older}, %{{.*}}: tensor<?x8xbf16> {kiln.name = "dy"})
// CHECK-SAME: -> (tensor<?x8xbf16> {kiln.name = "dx"}, tensor<?x8xbf16> {kiln.name = "dg"}, tensor<8xf32> {kiln.name = "dbias"})
// CHECK: kiln.reduce sum {{.*}} dims [0] : tensor<?x8xf32> -> tensor<8xf32>
func.func @gate(%x: tensor<?x8xbf16> {kiln.name = "x"}, %g: tensor<?x8xbf16> {kiln.name = "g"}, %bias: tensor<8xf32> {kiln.name = "bias"}) -> (tensor<?x8xbf16> {kiln.name = "y"}) {
  %xf = arith.extf %x : tensor<?x8xbf16> to tensor<?x8xf32>
  %gf = arith.extf %g : tensor<?x8xbf16> to tensor<?x8xf32>
  %b = kiln.broadcast %bias dims [1] like %x : tensor<8xf32>, tensor<?x8xbf16> -> tensor<?x8xf32>
  %t = arith.addf %gf, %b : tensor<?x8xf32>
  %o = arith.constant dense<1.0> : tensor<f32>
  %one = kiln.broadcast %o dims [] like %x : tensor<f32>, tensor<?x8xbf16> -> tensor<?x8xf32>
  %n = arith.negf %t : tensor<?x8xf32>
  %e = math.exp %n : tensor<?x8xf32>
  %d = arith.addf %e, %one : tensor<?x8xf32>
  %q = arith.divf %xf, %d : tensor<?x8xf32>
  %y = arith.truncf %q : tensor<?x8xf32> to tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}
// -----
// Softmax reads its own result and nothing else; the mask has no gradient.
// CHECK-LABEL: func.func @softmax(
// CHECK-NOT: @softmax_forward
// CHECK: func.func @softmax_backward(%{{.*}}: tensor<?x8xf32> {kiln.name = "y"}, %{{.*}}: tensor<?x8xf32> {kiln.name = "dy"}) -> (tensor<?x8xf32> {kiln.name = "dx"})
func.func @softmax(%x: tensor<?x8xf32> {kiln.name = "x"}, %m: tensor<?x8xi1> {kiln.name = "m"}) -> (tensor<?x8xf32> {kiln.name = "y"}) {
  %y = kiln.softmax %x mask %m : tensor<?x8xf32>, tensor<?x8xi1> -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
// -----
// A chain of which every step needs its input or its result again: x alone is read, the rest is
// computed again.
// CHECK-LABEL: func.func @chain(
// CHECK-NOT: @chain_forward
// CHECK: func.func @chain_backward(%[[X:.*]]: tensor<?x8xf32> {kiln.name = "x", kiln.older}, %{{.*}}: tensor<?x8xf32> {kiln.name = "dy"})
// CHECK: %[[E:.*]] = math.exp %[[X]]
// CHECK: %[[T:.*]] = math.tanh %[[E]]
// CHECK: math.sin %[[T]]
func.func @chain(%x: tensor<?x8xf32> {kiln.name = "x"}) -> (tensor<?x8xf32> {kiln.name = "y"}) {
  %a = math.exp %x : tensor<?x8xf32>
  %b = math.tanh %a : tensor<?x8xf32>
  %c = math.sin %b : tensor<?x8xf32>
  %d = math.cos %c : tensor<?x8xf32>
  return %d : tensor<?x8xf32>
}
// -----
// A value that is a quarter of what it is made from is saved instead.
// CHECK-LABEL: func.func @narrow_forward
// CHECK-SAME: -> (tensor<?x8xf32> {kiln.name = "y"}, tensor<?x8xi1> {kiln.name = "saved"})
func.func @narrow(%x: tensor<?x8xf32> {kiln.name = "x"}) -> (tensor<?x8xf32> {kiln.name = "y"}) {
  %a = math.absf %x : tensor<?x8xf32>
  %o = arith.constant dense<1.0> : tensor<f32>
  %one = kiln.broadcast %o dims [] like %x : tensor<f32>, tensor<?x8xf32> -> tensor<?x8xf32>
  %c = arith.cmpf ogt, %a, %one : tensor<?x8xf32>
  %y = arith.select %c, %x, %one : tensor<?x8xi1>, tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
// -----
// Each value that is saved has a name of its own: two maxima, and how many elements share each.
// CHECK-LABEL: func.func @two_maxima_forward
// CHECK-SAME: kiln.name = "saved"}, {{.*}}kiln.name = "saved_1"}, {{.*}}kiln.name = "saved_2"}, {{.*}}kiln.name = "saved_3"})
// CHECK-LABEL: func.func @two_maxima_backward
// CHECK-SAME: kiln.name = "saved"}{{.*}}kiln.name = "saved_1"}{{.*}}kiln.name = "saved_2"}{{.*}}kiln.name = "saved_3"}
func.func @two_maxima(%x: tensor<?x8xf32> {kiln.name = "x"}, %z: tensor<?x8xf32> {kiln.name = "z"}) -> (tensor<?xf32> {kiln.name = "y"}) {
  %a = kiln.reduce max %x dims [1] : tensor<?x8xf32> -> tensor<?xf32>
  %b = kiln.reduce max %z dims [1] : tensor<?x8xf32> -> tensor<?xf32>
  %y = arith.mulf %a, %b : tensor<?xf32>
  return %y : tensor<?xf32>
}
// -----
// Arguments and results that say so have no gradient; an argument that no result depends on gets
// zeros.
// CHECK-LABEL: func.func @some_backward(
// CHECK-SAME: %[[X:.*]]: tensor<8xf32> {kiln.name = "x", kiln.older}, %[[W:.*]]: tensor<8xf32> {kiln.name = "w", kiln.older}, %{{.*}}: tensor<8xf32> {kiln.name = "dy"}) -> (tensor<8xf32> {kiln.name = "dx"})
// CHECK: return
func.func @some(%x: tensor<8xf32> {kiln.name = "x"}, %w: tensor<8xf32> {kiln.name = "w", kiln.gradient = false})
    -> (tensor<8xf32> {kiln.name = "y"}, tensor<8xf32> {kiln.name = "z", kiln.gradient = false}) {
  %a = math.sin %x : tensor<8xf32>
  %y = arith.mulf %a, %w : tensor<8xf32>
  return %y, %a : tensor<8xf32>, tensor<8xf32>
}

//--- errors.mlir
func.func @power(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{'math.powf' has no gradient; write this part with other operations, or compile without the backward}}
  %y = math.powf %x, %x : tensor<8xf32>
  return %y : tensor<8xf32>
}
// -----
func.func @unknown(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{'math.atan' has no gradient; write this part with other operations, or compile without the backward}}
  %y = math.atan %x : tensor<8xf32>
  return %y : tensor<8xf32>
}
// -----
// An operation without a gradient is no obstacle where nothing depends on it.
func.func @aside(%x: tensor<8xf32>, %w: tensor<8xf32> {kiln.gradient = false}) -> tensor<8xf32> {
  %p = math.powf %w, %w : tensor<8xf32>
  %y = arith.mulf %x, %p : tensor<8xf32>
  return %y : tensor<8xf32>
}
// -----
// expected-error @+1 {{no result depends on an argument with a gradient; there is nothing to differentiate}}
func.func @nothing(%x: tensor<8xi32>) -> tensor<8xi32> {
  %y = arith.addi %x, %x : tensor<8xi32>
  return %y : tensor<8xi32>
}
// -----
// expected-error @+1 {{the module has 2 functions (@a, @b); name the one to compile}}
module {
  func.func @a(%x: tensor<8xf32>) -> tensor<8xf32> { return %x : tensor<8xf32> }
  func.func @b(%x: tensor<8xf32>) -> tensor<8xf32> { return %x : tensor<8xf32> }
}

//--- two.mlir
// CHECK-NOT: @first_backward
// CHECK: func.func @second_backward
// CHECK-SAME: kiln.older
// WAITS: func.func @second_backward
// WAITS-NOT: kiln.older
func.func @first(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = math.exp %x : tensor<8xf32>
  return %y : tensor<8xf32>
}
func.func @second(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = math.sin %x : tensor<8xf32>
  return %y : tensor<8xf32>
}
