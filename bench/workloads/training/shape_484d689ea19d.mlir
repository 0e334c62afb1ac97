func.func @attention(%q: tensor<?x1x?x8xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %k: tensor<?x1x?x8xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %v: tensor<?x1x?x8xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>})
    -> (tensor<?x1x?x8xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, tensor<?x1x?xf32> {kiln.gradient = false}) {
  %o, %lse = kiln.attention %q, %k, %v {scale = 3.535533845e-01 : f32}
      : (tensor<?x1x?x8xbf16>, tensor<?x1x?x8xbf16>, tensor<?x1x?x8xbf16>) -> (tensor<?x1x?x8xbf16>, tensor<?x1x?xf32>)
  return %o, %lse : tensor<?x1x?x8xbf16>, tensor<?x1x?xf32>
}
