func.func @attention(%q: tensor<?x20x?x64xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %k: tensor<?x20x?x64xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %v: tensor<?x20x?x64xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>})
    -> (tensor<?x20x?x64xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, tensor<?x20x?xf32> {kiln.gradient = false}) {
  %o, %lse = kiln.attention %q, %k, %v {scale = 1.250000000e-01 : f32, causal = #kiln.causal<first>}
      : (tensor<?x20x?x64xbf16>, tensor<?x20x?x64xbf16>, tensor<?x20x?x64xbf16>) -> (tensor<?x20x?x64xbf16>, tensor<?x20x?xf32>)
  return %o, %lse : tensor<?x20x?x64xbf16>, tensor<?x20x?xf32>
}
