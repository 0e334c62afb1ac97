func.func @adamw(%p0: tensor<?xf32> {kiln.list = 0}, %g0: tensor<?xf32> {kiln.list = 0}, %m0: tensor<?xf32> {kiln.list = 0}, %v0: tensor<?xf32> {kiln.list = 0}, %p1: tensor<?xf32> {kiln.list = 1}, %g1: tensor<?xf32> {kiln.list = 1}, %m1: tensor<?xf32> {kiln.list = 1}, %v1: tensor<?xf32> {kiln.list = 1}, %max_norm: tensor<f32>, %lr0: tensor<f32>, %lr1: tensor<f32>, %count0: tensor<f32>) -> (tensor<?xf32> {kiln.list = 0}, tensor<?xf32> {kiln.list = 0}, tensor<?xf32> {kiln.list = 0}, tensor<?xf32> {kiln.list = 1}, tensor<?xf32> {kiln.list = 1}, tensor<?xf32> {kiln.list = 1}, tensor<f32>, tensor<f32>) {
  %one = arith.constant dense<1.0> : tensor<f32>
  %square0 = arith.mulf %g0, %g0 : tensor<?xf32>
  %own0 = kiln.reduce sum %square0 dims [0] : tensor<?xf32> -> tensor<f32>
  %square1 = arith.mulf %g1, %g1 : tensor<?xf32>
  %own1 = kiln.reduce sum %square1 dims [0] : tensor<?xf32> -> tensor<f32>
  %sum1 = arith.addf %own0, %own1 : tensor<f32>
  %root = math.sqrt %sum1 : tensor<f32>
  %tiny = arith.constant dense<1.0e-6> : tensor<f32>
  %above = arith.addf %root, %tiny : tensor<f32>
  %ratio = arith.divf %max_norm, %above : tensor<f32>
  %clip = arith.minimumf %ratio, %one : tensor<f32>
  %next0 = arith.addf %count0, %one : tensor<f32>
  %new_p0, %new_m0, %new_v0 = kiln.adamw %p0, %g0, %m0, %v0, %lr0, %next0, %clip {beta1 = 9.00000000000000022e-01, beta2 = 9.98999999999999999e-01, eps = 9.99999999999999955e-07, weight_decay = 0.00000000000000000e+00}
      : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  %new_p1, %new_m1, %new_v1 = kiln.adamw %p1, %g1, %m1, %v1, %lr1, %next0, %clip {beta1 = 9.00000000000000022e-01, beta2 = 9.98999999999999999e-01, eps = 9.99999999999999955e-07, weight_decay = 0.00000000000000000e+00}
      : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  return %new_p0, %new_m0, %new_v0, %new_p1, %new_m1, %new_v1, %root, %next0 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<f32>, tensor<f32>
}
