func.func @attention(%q: tensor<?x4x?x16xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %k: tensor<?x4x?x16xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %v: tensor<?x4x?x16xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %m: tensor<1x1x1x?xi1>)
    -> (tensor<?x4x?x16xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, tensor<?x4x?xf32> {kiln.gradient = false}) {
  %o, %lse = kiln.attention %q, %k, %v mask %m {scale = 2.500000000e-01 : f32}
      : (tensor<?x4x?x16xbf16>, tensor<?x4x?x16xbf16>, tensor<?x4x?x16xbf16>, tensor<1x1x1x?xi1>) -> (tensor<?x4x?x16xbf16>, tensor<?x4x?xf32>)
  return %o, %lse : tensor<?x4x?x16xbf16>, tensor<?x4x?xf32>
}
