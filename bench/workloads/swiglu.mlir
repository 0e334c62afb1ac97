// The gated unit of a language model's feed-forward layer, after its two products.
func.func @swiglu(%gate: tensor<?x5120xbf16>, %up: tensor<?x5120xbf16>) -> tensor<?x5120xbf16> {
  %y = kiln.swiglu %gate, %up : tensor<?x5120xbf16>, tensor<?x5120xbf16> -> tensor<?x5120xbf16>
  return %y : tensor<?x5120xbf16>
}
