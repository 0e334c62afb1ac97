func.func @attention_backward(%q: tensor<?x4x384x16xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %k: tensor<?x4x384x16xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %v: tensor<?x4x384x16xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %b: tensor<1x4x384x384xbf16>, %o: tensor<?x4x384x16xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %lse: tensor<?x4x384xf32>, %do: tensor<?x4x384x16xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>})
    -> (tensor<?x4x384x16xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, tensor<?x4x384x16xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, tensor<?x4x384x16xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, tensor<1x4x384x384xbf16>) {
  %do_wide = arith.extf %do : tensor<?x4x384x16xbf16> to tensor<?x4x384x16xf32>
  %o_wide = arith.extf %o : tensor<?x4x384x16xbf16> to tensor<?x4x384x16xf32>
  %products = arith.mulf %do_wide, %o_wide : tensor<?x4x384x16xf32>
  %delta = kiln.reduce sum %products dims [3] : tensor<?x4x384x16xf32> -> tensor<?x4x384xf32>
  %dq_wide, %dk_wide, %dv_wide, %db_wide = kiln.attention_backward %do, %delta, %lse, %q, %k, %v bias %b {scale = 2.500000000e-01 : f32}
      : (tensor<?x4x384x16xbf16>, tensor<?x4x384xf32>, tensor<?x4x384xf32>, tensor<?x4x384x16xbf16>, tensor<?x4x384x16xbf16>, tensor<?x4x384x16xbf16>, tensor<1x4x384x384xbf16>)
      -> query tensor<?x4x384x16xf32> key tensor<?x4x384x16xf32> value tensor<?x4x384x16xf32> bias tensor<1x4x384x384xf32> 
  %dq = arith.truncf %dq_wide : tensor<?x4x384x16xf32> to tensor<?x4x384x16xbf16>
  %dk = arith.truncf %dk_wide : tensor<?x4x384x16xf32> to tensor<?x4x384x16xbf16>
  %dv = arith.truncf %dv_wide : tensor<?x4x384x16xf32> to tensor<?x4x384x16xbf16>
  %db = arith.truncf %db_wide : tensor<1x4x384x384xf32> to tensor<1x4x384x384xbf16>
  return %dq, %dk, %dv, %db : tensor<?x4x384x16xbf16>, tensor<?x4x384x16xbf16>, tensor<?x4x384x16xbf16>, tensor<1x4x384x384xbf16>
}
