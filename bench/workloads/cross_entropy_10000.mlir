// The loss of a language model over a vocabulary of 10000.
func.func @cross_entropy(%logits: tensor<?x10000xbf16>, %target: tensor<?xi64>)
    -> (tensor<?xf32>, tensor<?xf32>) {
  %loss, %lse = kiln.cross_entropy %logits, %target
      : (tensor<?x10000xbf16>, tensor<?xi64>) -> (tensor<?xf32>, tensor<?xf32>)
  return %loss, %lse : tensor<?xf32>, tensor<?xf32>
}
