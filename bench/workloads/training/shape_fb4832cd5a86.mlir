func.func @attention(%q: tensor<?x4x256x16xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %k: tensor<?x4x256x16xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %v: tensor<?x4x256x16xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %b: tensor<1x4x256x256xbf16>)
    -> (tensor<?x4x256x16xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, tensor<?x4x256xf32> {kiln.gradient = false}) {
  %o, %lse = kiln.attention %q, %k, %v bias %b {scale = 2.500000000e-01 : f32}
      : (tensor<?x4x256x16xbf16>, tensor<?x4x256x16xbf16>, tensor<?x4x256x16xbf16>, tensor<1x4x256x256xbf16>) -> (tensor<?x4x256x16xbf16>, tensor<?x4x256xf32>)
  return %o, %lse : tensor<?x4x256x16xbf16>, tensor<?x4x256xf32>
}
