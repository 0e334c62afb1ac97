// Attention of an AlphaFold 2 training step (crop 256; of fine-tuning 384): rows of a pair
// representation or of an MSA with a mask of keys, whose heads share a bias of pairs; columns of an
// MSA without one.
func.func @triangle(%q: tensor<?x4x256x32xbf16>,
    %k: tensor<?x4x256x32xbf16>,
    %v: tensor<?x4x256x32xbf16>,
    %bias: tensor<1x4x256x256xbf16>,
    %mask: tensor<?x1x1x256xi1>)
    -> (tensor<?x4x256x32xbf16>, tensor<?x4x256xf32>) {
  %o, %lse = kiln.attention %q, %k, %v bias %bias mask %mask {scale = 0.17677670 : f32}
      : (tensor<?x4x256x32xbf16>, tensor<?x4x256x32xbf16>, tensor<?x4x256x32xbf16>, tensor<1x4x256x256xbf16>, tensor<?x1x1x256xi1>)
      -> (tensor<?x4x256x32xbf16>, tensor<?x4x256xf32>)
  return %o, %lse : tensor<?x4x256x32xbf16>, tensor<?x4x256xf32>
}
func.func @msa_row(%q: tensor<?x8x256x32xbf16>,
    %k: tensor<?x8x256x32xbf16>,
    %v: tensor<?x8x256x32xbf16>,
    %bias: tensor<1x8x256x256xbf16>,
    %mask: tensor<?x1x1x256xi1>)
    -> (tensor<?x8x256x32xbf16>, tensor<?x8x256xf32>) {
  %o, %lse = kiln.attention %q, %k, %v bias %bias mask %mask {scale = 0.17677670 : f32}
      : (tensor<?x8x256x32xbf16>, tensor<?x8x256x32xbf16>, tensor<?x8x256x32xbf16>, tensor<1x8x256x256xbf16>, tensor<?x1x1x256xi1>)
      -> (tensor<?x8x256x32xbf16>, tensor<?x8x256xf32>)
  return %o, %lse : tensor<?x8x256x32xbf16>, tensor<?x8x256xf32>
}
func.func @msa_row_extra(%q: tensor<?x8x256x8xbf16>,
    %k: tensor<?x8x256x8xbf16>,
    %v: tensor<?x8x256x8xbf16>,
    %bias: tensor<1x8x256x256xbf16>,
    %mask: tensor<?x1x1x256xi1>)
    -> (tensor<?x8x256x8xbf16>, tensor<?x8x256xf32>) {
  %o, %lse = kiln.attention %q, %k, %v bias %bias mask %mask {scale = 0.35355339 : f32}
      : (tensor<?x8x256x8xbf16>, tensor<?x8x256x8xbf16>, tensor<?x8x256x8xbf16>, tensor<1x8x256x256xbf16>, tensor<?x1x1x256xi1>)
      -> (tensor<?x8x256x8xbf16>, tensor<?x8x256xf32>)
  return %o, %lse : tensor<?x8x256x8xbf16>, tensor<?x8x256xf32>
}
func.func @msa_column(%q: tensor<?x8x132x32xbf16>,
    %k: tensor<?x8x132x32xbf16>,
    %v: tensor<?x8x132x32xbf16>,
    %mask: tensor<?x1x1x132xi1>)
    -> (tensor<?x8x132x32xbf16>, tensor<?x8x132xf32>) {
  %o, %lse = kiln.attention %q, %k, %v mask %mask {scale = 0.17677670 : f32}
      : (tensor<?x8x132x32xbf16>, tensor<?x8x132x32xbf16>, tensor<?x8x132x32xbf16>, tensor<?x1x1x132xi1>)
      -> (tensor<?x8x132x32xbf16>, tensor<?x8x132xf32>)
  return %o, %lse : tensor<?x8x132x32xbf16>, tensor<?x8x132xf32>
}
func.func @template_triangle(%q: tensor<?x4x256x16xbf16>,
    %k: tensor<?x4x256x16xbf16>,
    %v: tensor<?x4x256x16xbf16>,
    %bias: tensor<1x4x256x256xbf16>,
    %mask: tensor<?x1x1x256xi1>)
    -> (tensor<?x4x256x16xbf16>, tensor<?x4x256xf32>) {
  %o, %lse = kiln.attention %q, %k, %v bias %bias mask %mask {scale = 0.25000000 : f32}
      : (tensor<?x4x256x16xbf16>, tensor<?x4x256x16xbf16>, tensor<?x4x256x16xbf16>, tensor<1x4x256x256xbf16>, tensor<?x1x1x256xi1>)
      -> (tensor<?x4x256x16xbf16>, tensor<?x4x256xf32>)
  return %o, %lse : tensor<?x4x256x16xbf16>, tensor<?x4x256xf32>
}
func.func @triangle_384(%q: tensor<?x4x384x32xbf16>,
    %k: tensor<?x4x384x32xbf16>,
    %v: tensor<?x4x384x32xbf16>,
    %bias: tensor<1x4x384x384xbf16>,
    %mask: tensor<?x1x1x384xi1>)
    -> (tensor<?x4x384x32xbf16>, tensor<?x4x384xf32>) {
  %o, %lse = kiln.attention %q, %k, %v bias %bias mask %mask {scale = 0.17677670 : f32}
      : (tensor<?x4x384x32xbf16>, tensor<?x4x384x32xbf16>, tensor<?x4x384x32xbf16>, tensor<1x4x384x384xbf16>, tensor<?x1x1x384xi1>)
      -> (tensor<?x4x384x32xbf16>, tensor<?x4x384xf32>)
  return %o, %lse : tensor<?x4x384x32xbf16>, tensor<?x4x384xf32>
}
