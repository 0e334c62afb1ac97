func.func @attention_backward(%q: tensor<?x16x?x64xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %k: tensor<?x16x?x64xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %v: tensor<?x16x?x64xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %o: tensor<?x16x?x64xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %lse: tensor<?x16x?xf32>, %do: tensor<?x16x?x64xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>})
    -> (tensor<?x16x?x64xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, tensor<?x16x?x64xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, tensor<?x16x?x64xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}) {
  %do_wide = arith.extf %do : tensor<?x16x?x64xbf16> to tensor<?x16x?x64xf32>
  %o_wide = arith.extf %o : tensor<?x16x?x64xbf16> to tensor<?x16x?x64xf32>
  %products = arith.mulf %do_wide, %o_wide : tensor<?x16x?x64xf32>
  %delta = kiln.reduce sum %products dims [3] : tensor<?x16x?x64xf32> -> tensor<?x16x?xf32>
  %dq_wide, %dk_wide, %dv_wide = kiln.attention_backward %do, %delta, %lse, %q, %k, %v {scale = 1.250000000e-01 : f32, causal = #kiln.causal<first>}
      : (tensor<?x16x?x64xbf16>, tensor<?x16x?xf32>, tensor<?x16x?xf32>, tensor<?x16x?x64xbf16>, tensor<?x16x?x64xbf16>, tensor<?x16x?x64xbf16>)
      -> query tensor<?x16x?x64xf32> key tensor<?x16x?x64xf32> value tensor<?x16x?x64xf32> 
  %dq = arith.truncf %dq_wide : tensor<?x16x?x64xf32> to tensor<?x16x?x64xbf16>
  %dk = arith.truncf %dk_wide : tensor<?x16x?x64xf32> to tensor<?x16x?x64xbf16>
  %dv = arith.truncf %dv_wide : tensor<?x16x?x64xf32> to tensor<?x16x?x64xbf16>
  return %dq, %dk, %dv : tensor<?x16x?x64xbf16>, tensor<?x16x?x64xbf16>, tensor<?x16x?x64xbf16>
}
