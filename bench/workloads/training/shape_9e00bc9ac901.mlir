func.func @attention_backward(%q: tensor<?x8x256x32xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %k: tensor<?x8x256x32xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %v: tensor<?x8x256x32xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %b: tensor<1x8x256x256xbf16>, %m: tensor<?x1x1x256xi1>, %o: tensor<?x8x256x32xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %lse: tensor<?x8x256xf32>, %do: tensor<?x8x256x32xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>})
    -> (tensor<?x8x256x32xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, tensor<?x8x256x32xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, tensor<?x8x256x32xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, tensor<1x8x256x256xbf16>) {
  %do_wide = arith.extf %do : tensor<?x8x256x32xbf16> to tensor<?x8x256x32xf32>
  %o_wide = arith.extf %o : tensor<?x8x256x32xbf16> to tensor<?x8x256x32xf32>
  %products = arith.mulf %do_wide, %o_wide : tensor<?x8x256x32xf32>
  %delta = kiln.reduce sum %products dims [3] : tensor<?x8x256x32xf32> -> tensor<?x8x256xf32>
  %dq_wide, %dk_wide, %dv_wide, %db_wide = kiln.attention_backward %do, %delta, %lse, %q, %k, %v bias %b mask %m {scale = 1.767766923e-01 : f32}
      : (tensor<?x8x256x32xbf16>, tensor<?x8x256xf32>, tensor<?x8x256xf32>, tensor<?x8x256x32xbf16>, tensor<?x8x256x32xbf16>, tensor<?x8x256x32xbf16>, tensor<1x8x256x256xbf16>, tensor<?x1x1x256xi1>)
      -> query tensor<?x8x256x32xf32> key tensor<?x8x256x32xf32> value tensor<?x8x256x32xf32> bias tensor<1x8x256x256xf32> 
  %dq = arith.truncf %dq_wide : tensor<?x8x256x32xf32> to tensor<?x8x256x32xbf16>
  %dk = arith.truncf %dk_wide : tensor<?x8x256x32xf32> to tensor<?x8x256x32xbf16>
  %dv = arith.truncf %dv_wide : tensor<?x8x256x32xf32> to tensor<?x8x256x32xbf16>
  %db = arith.truncf %db_wide : tensor<1x8x256x256xf32> to tensor<1x8x256x256xbf16>
  return %dq, %dk, %dv, %db : tensor<?x8x256x32xbf16>, tensor<?x8x256x32xbf16>, tensor<?x8x256x32xbf16>, tensor<1x8x256x256xbf16>
}
