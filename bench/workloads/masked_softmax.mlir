// Attention weights of AlphaFold's triangle attention: scaled scores, masked keys.
func.func @masked_softmax(%s: tensor<?x256xbf16>, %mask: tensor<?x256xi1>) -> tensor<?x256xbf16> {
  %p = kiln.softmax %s mask %mask {scale = 0.125 : f32}
      : tensor<?x256xbf16>, tensor<?x256xi1> -> tensor<?x256xbf16>
  return %p : tensor<?x256xbf16>
}
