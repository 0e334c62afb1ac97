// kiln-canonicalize folds, merges equal operations and drops unused ones, and regroups nothing.
// RUN: kiln-opt %s --kiln-canonicalize | FileCheck %s

// CHECK-LABEL: func.func @merged
func.func @merged(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // CHECK-COUNT-1: math.exp
  // CHECK-NOT: math.exp
  // CHECK-NOT: math.log
  %a = math.exp %x : tensor<?x8xf32>
  %b = math.exp %x : tensor<?x8xf32>
  %unused = math.log %x : tensor<?x8xf32>
  %c = arith.addf %a, %b : tensor<?x8xf32>
  // CHECK: return
  return %c : tensor<?x8xf32>
}

// Constants fold; (x + 1) + 1 keeps both roundings.
// CHECK-LABEL: func.func @folded
func.func @folded(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK-DAG: %[[ONE:.*]] = arith.constant dense<1.000000e+00> : tensor<4x8xf32>
  // CHECK-DAG: %[[THREE:.*]] = arith.constant dense<3.000000e+00> : tensor<4x8xf32>
  // CHECK: %[[A:.*]] = arith.addf %{{.*}}, %[[ONE]]
  // CHECK: %[[B:.*]] = arith.addf %[[A]], %[[ONE]]
  // CHECK: return %[[B]], %[[THREE]]
  %one = arith.constant dense<1.0> : tensor<4x8xf32>
  %two = arith.constant dense<2.0> : tensor<4x8xf32>
  %a = arith.addf %x, %one : tensor<4x8xf32>
  %b = arith.addf %a, %one : tensor<4x8xf32>
  %three = arith.addf %one, %two : tensor<4x8xf32>
  return %b, %three : tensor<4x8xf32>, tensor<4x8xf32>
}
