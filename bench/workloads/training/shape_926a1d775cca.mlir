func.func @attention(%q: tensor<?x8x384x8xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %k: tensor<?x8x384x8xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %v: tensor<?x8x384x8xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %b: tensor<1x8x384x384xbf16>)
    -> (tensor<?x8x384x8xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, tensor<?x8x384xf32> {kiln.gradient = false}) {
  %o, %lse = kiln.attention %q, %k, %v bias %b {scale = 3.535533845e-01 : f32}
      : (tensor<?x8x384x8xbf16>, tensor<?x8x384x8xbf16>, tensor<?x8x384x8xbf16>, tensor<1x8x384x384xbf16>) -> (tensor<?x8x384x8xbf16>, tensor<?x8x384xf32>)
  return %o, %lse : tensor<?x8x384x8xbf16>, tensor<?x8x384xf32>
}
