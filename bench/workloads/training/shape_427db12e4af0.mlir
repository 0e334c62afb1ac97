func.func @attention_backward(%q: tensor<?x1x?x8xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %k: tensor<?x1x?x8xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %v: tensor<?x1x?x8xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %o: tensor<?x1x?x8xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %lse: tensor<?x1x?xf32>, %do: tensor<?x1x?x8xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>})
    -> (tensor<?x1x?x8xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, tensor<?x1x?x8xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, tensor<?x1x?x8xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}) {
  %do_wide = arith.extf %do : tensor<?x1x?x8xbf16> to tensor<?x1x?x8xf32>
  %o_wide = arith.extf %o : tensor<?x1x?x8xbf16> to tensor<?x1x?x8xf32>
  %products = arith.mulf %do_wide, %o_wide : tensor<?x1x?x8xf32>
  %delta = kiln.reduce sum %products dims [3] : tensor<?x1x?x8xf32> -> tensor<?x1x?xf32>
  %dq_wide, %dk_wide, %dv_wide = kiln.attention_backward %do, %delta, %lse, %q, %k, %v {scale = 3.535533845e-01 : f32}
      : (tensor<?x1x?x8xbf16>, tensor<?x1x?xf32>, tensor<?x1x?xf32>, tensor<?x1x?x8xbf16>, tensor<?x1x?x8xbf16>, tensor<?x1x?x8xbf16>)
      -> query tensor<?x1x?x8xf32> key tensor<?x1x?x8xf32> value tensor<?x1x?x8xf32> 
  %dq = arith.truncf %dq_wide : tensor<?x1x?x8xf32> to tensor<?x1x?x8xbf16>
  %dk = arith.truncf %dk_wide : tensor<?x1x?x8xf32> to tensor<?x1x?x8xbf16>
  %dv = arith.truncf %dv_wide : tensor<?x1x?x8xf32> to tensor<?x1x?x8xbf16>
  return %dq, %dk, %dv : tensor<?x1x?x8xbf16>, tensor<?x1x?x8xbf16>, tensor<?x1x?x8xbf16>
}
