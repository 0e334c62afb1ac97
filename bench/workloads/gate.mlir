// The sigmoid gate behind AlphaFold's attention, x / (1 + exp(-(g + bias))), as one kernel.
func.func @gate(%x: tensor<?x128xbf16>, %g: tensor<?x128xbf16>, %bias: tensor<128xf32>)
    -> tensor<?x128xbf16> {
  %xf = arith.extf %x : tensor<?x128xbf16> to tensor<?x128xf32>
  %gf = arith.extf %g : tensor<?x128xbf16> to tensor<?x128xf32>
  %b = kiln.broadcast %bias dims [1] like %xf
      : tensor<128xf32>, tensor<?x128xf32> -> tensor<?x128xf32>
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
