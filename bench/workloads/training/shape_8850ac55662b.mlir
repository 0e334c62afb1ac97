func.func @attention_backward(%q: tensor<?x8x132x32xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %k: tensor<?x8x132x32xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %v: tensor<?x8x132x32xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %m: tensor<?x1x1x132xi1>, %o: tensor<?x8x132x32xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %lse: tensor<?x8x132xf32>, %do: tensor<?x8x132x32xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>})
    -> (tensor<?x8x132x32xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, tensor<?x8x132x32xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, tensor<?x8x132x32xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}) {
  %do_wide = arith.extf %do : tensor<?x8x132x32xbf16> to tensor<?x8x132x32xf32>
  %o_wide = arith.extf %o : tensor<?x8x132x32xbf16> to tensor<?x8x132x32xf32>
  %products = arith.mulf %do_wide, %o_wide : tensor<?x8x132x32xf32>
  %delta = kiln.reduce sum %products dims [3] : tensor<?x8x132x32xf32> -> tensor<?x8x132xf32>
  %dq_wide, %dk_wide, %dv_wide = kiln.attention_backward %do, %delta, %lse, %q, %k, %v mask %m {scale = 1.767766923e-01 : f32}
      : (tensor<?x8x132x32xbf16>, tensor<?x8x132xf32>, tensor<?x8x132xf32>, tensor<?x8x132x32xbf16>, tensor<?x8x132x32xbf16>, tensor<?x8x132x32xbf16>, tensor<?x1x1x132xi1>)
      -> query tensor<?x8x132x32xf32> key tensor<?x8x132x32xf32> value tensor<?x8x132x32xf32> 
  %dq = arith.truncf %dq_wide : tensor<?x8x132x32xf32> to tensor<?x8x132x32xbf16>
  %dk = arith.truncf %dk_wide : tensor<?x8x132x32xf32> to tensor<?x8x132x32xbf16>
  %dv = arith.truncf %dv_wide : tensor<?x8x132x32xf32> to tensor<?x8x132x32xbf16>
  return %dq, %dk, %dv : tensor<?x8x132x32xbf16>, tensor<?x8x132x32xbf16>, tensor<?x8x132x32xbf16>
}
