func.func @attention(%q: tensor<?x8x132x32xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %k: tensor<?x8x132x32xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %v: tensor<?x8x132x32xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, %m: tensor<?x1x1x132xi1>)
    -> (tensor<?x8x132x32xbf16> {kiln.layout = #kiln.layout<strides = [-1, -1, -1, 1], multiple = 8>}, tensor<?x8x132xf32> {kiln.gradient = false}) {
  %o, %lse = kiln.attention %q, %k, %v mask %m {scale = 1.767766923e-01 : f32}
      : (tensor<?x8x132x32xbf16>, tensor<?x8x132x32xbf16>, tensor<?x8x132x32xbf16>, tensor<?x1x1x132xi1>) -> (tensor<?x8x132x32xbf16>, tensor<?x8x132xf32>)
  return %o, %lse : tensor<?x8x132x32xbf16>, tensor<?x8x132xf32>
}
