// kiln-differentiate of attention: the terms of its backward, and as many gradients as are wanted.
// The backward reads output and lse, which no backward computes again.
// RUN: kiln-opt %s -split-input-file --kiln-differentiate | FileCheck %s

// One operation for all gradients: the given gradient as it is in memory, delta in fp32. Its operands
// and attributes are the forward's; mask and seed have no gradient.
// CHECK-LABEL: func.func @f_backward(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<?x4x?x64xbf16> {kiln.name = "q"
// CHECK-SAME: %[[K:[^:]*]]: tensor<?x2x?x64xbf16> {kiln.name = "k"
// CHECK-SAME: %[[V:[^:]*]]: tensor<?x2x?x32xbf16> {kiln.name = "v"
// CHECK-SAME: %[[B:[^:]*]]: tensor<1x4x?x?xf32> {kiln.name = "b"
// CHECK-SAME: %[[M:[^:]*]]: tensor<?x1x1x?xi1> {kiln.name = "m"
// CHECK-SAME: %[[S:[^:]*]]: tensor<i64> {kiln.name = "seed"
// CHECK-SAME: %[[OFF:[^:]*]]: tensor<i64> {kiln.name = "offset"
// CHECK-SAME: %[[O:[^:]*]]: tensor<?x4x?x32xbf16> {kiln.name = "o"}, %[[LSE:[^:]*]]: tensor<?x4x?xf32> {kiln.name = "lse"}, %[[DO:[^:]*]]: tensor<?x4x?x32xbf16> {kiln.name = "do"}) -> ({{[^,]*}}, {{[^,]*}}dk"}, {{[^,]*}}dv"}, {{[^,]*}}db"})
// CHECK-DAG: %[[D:.*]] = arith.extf %[[DO]]
// CHECK-DAG: %[[OF:.*]] = arith.extf %[[O]]
// CHECK-NOT: kiln.attention {{.*}}
// CHECK: %[[P:.*]] = arith.mulf %[[D]], %[[OF]]
// CHECK-NEXT: %[[DELTA:.*]] = kiln.reduce {{.*}}sum %[[P]] dims [3]
// CHECK-NEXT: %[[DQ:[^,]*]], %[[DK:[^,]*]], %[[DV:[^,]*]], %[[DB:.*]] = kiln.attention_backward %[[DO]], %[[DELTA]], %[[LSE]], %[[Q]], %[[K]], %[[V]] bias %[[B]] mask %[[M]] dropout %[[S]], %[[OFF]] p 1.000000e-01 {causal = #kiln.causal<last>, scale = 1.250000e-01 : f32, softcap = 3.000000e+01 : f32, window_left = 128 : i64} : {{.*}} -> query tensor<?x4x?x64xf32> key tensor<?x2x?x64xf32> value tensor<?x2x?x32xf32> bias tensor<1x4x?x?xf32>
// CHECK-DAG: arith.truncf %[[DQ]]
// CHECK-DAG: arith.truncf %[[DK]]
// CHECK-DAG: arith.truncf %[[DV]]
// CHECK: return {{.*}}, %[[DB]] :
func.func @f(%q: tensor<?x4x?x64xbf16> {kiln.name = "q"}, %k: tensor<?x2x?x64xbf16> {kiln.name = "k"}, %v: tensor<?x2x?x32xbf16> {kiln.name = "v"}, %b: tensor<1x4x?x?xf32> {kiln.name = "b"}, %m: tensor<?x1x1x?xi1> {kiln.name = "m"}, %s: tensor<i64> {kiln.name = "seed"}, %off: tensor<i64> {kiln.name = "offset"})
    -> (tensor<?x4x?x32xbf16> {kiln.name = "o"}, tensor<?x4x?xf32> {kiln.name = "lse", kiln.gradient = false}) {
  %o, %lse = kiln.attention %q, %k, %v bias %b mask %m dropout %s, %off p 0.1 {scale = 0.125 : f32, causal = #kiln.causal<last>, window_left = 128 : i64, softcap = 30.0 : f32}
      : (tensor<?x4x?x64xbf16>, tensor<?x2x?x64xbf16>, tensor<?x2x?x32xbf16>, tensor<1x4x?x?xf32>, tensor<?x1x1x?xi1>, tensor<i64>, tensor<i64>) -> (tensor<?x4x?x32xbf16>, tensor<?x4x?xf32>)
  return %o, %lse : tensor<?x4x?x32xbf16>, tensor<?x4x?xf32>
}
// -----
// The gradient of lse comes off delta; what has no gradient is not asked for.
// CHECK-LABEL: func.func @value_alone_backward(
// CHECK-SAME: %[[DO:[^:]*]]: tensor<4x5x8xf32> {kiln.name = "do"}, %[[DLSE:[^:]*]]: tensor<4x5xf32> {kiln.name = "dlse"})
// CHECK: %[[SUM:.*]] = kiln.reduce
// CHECK-NEXT: %[[DELTA:.*]] = arith.subf %[[SUM]], %[[DLSE]]
// CHECK-NEXT: %[[DV:.*]] = kiln.attention_backward %[[DO]], %[[DELTA]], {{.*}} -> value tensor<4x6x8xf32>
// CHECK-NEXT: return %[[DV]]
func.func @value_alone(%q: tensor<4x5x8xf32> {kiln.name = "q", kiln.gradient = false}, %k: tensor<4x6x8xf32> {kiln.name = "k", kiln.gradient = false}, %v: tensor<4x6x8xf32> {kiln.name = "v"}) -> (tensor<4x5x8xf32> {kiln.name = "o"}, tensor<4x5xf32> {kiln.name = "lse"}) {
  %o, %lse = kiln.attention %q, %k, %v : (tensor<4x5x8xf32>, tensor<4x6x8xf32>, tensor<4x6x8xf32>) -> (tensor<4x5x8xf32>, tensor<4x5xf32>)
  return %o, %lse : tensor<4x5x8xf32>, tensor<4x5xf32>
}
// -----
// Only lse has a gradient: that of the output is zeros with the sizes of the query.
// CHECK-LABEL: func.func @lse_alone_backward(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<4x?x8xf16> {kiln.name = "q"
// CHECK-SAME: %[[LSE:[^:]*]]: tensor<4x?xf32> {kiln.name = "lse"
// CHECK-SAME: %[[DLSE:[^:]*]]: tensor<4x?xf32> {kiln.name = "dlse"})
// CHECK-DAG: %[[DELTA:.*]] = arith.negf %[[DLSE]]
// CHECK-DAG: %[[ZERO:.*]] = arith.constant dense<0.000000e+00>
// CHECK-DAG: %[[DO:.*]] = kiln.broadcast %[[ZERO]] dims [] like %[[Q]] : tensor<f32>, tensor<4x?x8xf16> -> tensor<4x?x8xf32>
// CHECK-NOT: kiln.attention {{.*}}
// CHECK: kiln.attention_backward %[[DO]], %[[DELTA]], %[[LSE]], {{.*}} starts
func.func @lse_alone(%q: tensor<4x?x8xf16> {kiln.name = "q"}, %k: tensor<4x?x8xf16> {kiln.name = "k"}, %qs: tensor<?xi32> {kiln.name = "qs"}, %ks: tensor<?xi32> {kiln.name = "ks"}) -> (tensor<4x?xf32> {kiln.name = "lse"}) {
  %o, %lse = kiln.attention %q, %k, %k starts %qs, %ks : (tensor<4x?x8xf16>, tensor<4x?x8xf16>, tensor<4x?x8xf16>, tensor<?xi32>, tensor<?xi32>) -> (tensor<4x?x8xf16>, tensor<4x?xf32>)
  return %lse : tensor<4x?xf32>
}
// -----
// A gradient that the text gives in fp32 is rounded as products take it, for delta too. A tensor that is
// query, key and value has one sum.
// The forward of a function that returns neither output nor lse saves both.
// CHECK-LABEL: func.func @fp32_gradient_forward(
// CHECK-SAME: tensor<4x5x8xbf16> {kiln.name = "saved"}, tensor<4x5xf32> {kiln.name = "saved_1"})
// CHECK-LABEL: func.func @fp32_gradient_backward(
// CHECK-SAME: %[[DO:[^:]*]]: tensor<4x5x8xf32> {kiln.name = "do"})
// CHECK: %[[R:.*]] = arith.truncf %[[DO]]
// CHECK: %[[W:.*]] = arith.extf %[[R]]
// CHECK: arith.mulf %[[W]],
// CHECK: %[[DQ:[^,]*]], %[[DK:[^,]*]], %[[DV:.*]] = kiln.attention_backward %[[R]],
// CHECK-NEXT: %[[A:.*]] = arith.addf %[[DQ]], %[[DK]]
// CHECK-NEXT: %[[B:.*]] = arith.addf %[[A]], %[[DV]]
// CHECK-NEXT: arith.truncf %[[B]]
func.func @fp32_gradient(%q: tensor<4x5x8xbf16> {kiln.name = "q"}) -> (tensor<4x5x8xf32> {kiln.name = "o"}) {
  %o, %lse = kiln.attention %q, %q, %q : (tensor<4x5x8xbf16>, tensor<4x5x8xbf16>, tensor<4x5x8xbf16>) -> (tensor<4x5x8xbf16>, tensor<4x5xf32>)
  %w = arith.extf %o : tensor<4x5x8xbf16> to tensor<4x5x8xf32>
  return %w : tensor<4x5x8xf32>
}
