// Drawn at random. Its 144 copies a thread are so many that ptxas 13.0 moved loads above their wait.
func.func @f(%x0: tensor<?x96xf32>, %x4: tensor<?x96xf32>, %x6: tensor<?x96xf16>) -> (tensor<?x96xbf16>, tensor<?x96xf32>, tensor<?x96xbf16>) {
  %x6_f = arith.extf %x6 : tensor<?x96xf16> to tensor<?x96xf32>
  %v7 = kiln.reduce min %x0 dims [1] : tensor<?x96xf32> -> tensor<?xf32>
  %v8 = kiln.broadcast %v7 dims [0] like %x4 : tensor<?xf32>, tensor<?x96xf32> -> tensor<?x96xf32>
  %v9_one = arith.constant dense<1.0> : tensor<f32>
  %v9_k = kiln.broadcast %v9_one dims [] like %v8 : tensor<f32>, tensor<?x96xf32> -> tensor<?x96xf32>
  %v9_q = arith.mulf %v8, %v8 : tensor<?x96xf32>
  %v9_d = arith.addf %v9_q, %v9_k : tensor<?x96xf32>
  %v9 = math.log %v9_d : tensor<?x96xf32>
  %v10 = kiln.reduce sum %v9 dims [1] : tensor<?x96xf32> -> tensor<?xf32>
  %v11 = kiln.swiglu %x4, %x4 : tensor<?x96xf32>, tensor<?x96xf32> -> tensor<?x96xf32>
  %v12_i = kiln.index dim 1 like %v9 : tensor<?x96xf32> -> tensor<?x96xi32>
  %v12_f = arith.sitofp %v12_i : tensor<?x96xi32> to tensor<?x96xf32>
  %v12_s = math.sin %v12_f : tensor<?x96xf32>
  %v12 = arith.mulf %v12_s, %v9 : tensor<?x96xf32>
  %v13 = kiln.swiglu %v12, %v11 : tensor<?x96xf32>, tensor<?x96xf32> -> tensor<?x96xf32>
  %v19 = math.tanh %v10 : tensor<?xf32>
  %v22 = arith.maximumf %x6_f, %v13 : tensor<?x96xf32>
  %v23_h = arith.truncf %x6_f : tensor<?x96xf32> to tensor<?x96xbf16>
  %v23 = arith.extf %v23_h : tensor<?x96xbf16> to tensor<?x96xf32>
  %v24 = math.tanh %v23 : tensor<?x96xf32>
  %v25 = arith.addf %v19, %v19 : tensor<?xf32>
  %v26 = kiln.broadcast %v25 dims [0] like %v23 : tensor<?xf32>, tensor<?x96xf32> -> tensor<?x96xf32>
  %y0 = arith.truncf %v26 : tensor<?x96xf32> to tensor<?x96xbf16>
  %y2 = arith.truncf %v22 : tensor<?x96xf32> to tensor<?x96xbf16>
  return %y0, %v24, %y2 : tensor<?x96xbf16>, tensor<?x96xf32>, tensor<?x96xbf16>
}
