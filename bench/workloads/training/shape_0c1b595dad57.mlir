func.func @dropout(%x: tensor<?x1024xbf16>, %seed: tensor<i64>, %offset: tensor<i64>)
    -> (tensor<?x1024xbf16>, tensor<?x1024xi1>) {
  %u = kiln.random %seed, %offset like %x : tensor<?x1024xbf16> -> tensor<?x1024xi32>
  %least = arith.constant dense<-1073741824> : tensor<i32>
  %leasts = kiln.broadcast %least dims [] like %u : tensor<i32>, tensor<?x1024xi32> -> tensor<?x1024xi32>
  %mask = arith.cmpi sge, %u, %leasts : tensor<?x1024xi32>
  %kept = arith.uitofp %mask : tensor<?x1024xi1> to tensor<?x1024xf32>
  %wide = arith.extf %x : tensor<?x1024xbf16> to tensor<?x1024xf32>
  %masked = arith.mulf %wide, %kept : tensor<?x1024xf32>
  %scale = arith.constant dense<1.333333373e+00> : tensor<f32>
  %scales = kiln.broadcast %scale dims [] like %masked : tensor<f32>, tensor<?x1024xf32> -> tensor<?x1024xf32>
  %scaled = arith.mulf %masked, %scales : tensor<?x1024xf32>
  %y = arith.truncf %scaled : tensor<?x1024xf32> to tensor<?x1024xbf16>
  return %y, %mask : tensor<?x1024xbf16>, tensor<?x1024xi1>
}
