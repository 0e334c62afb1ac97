// The loss of a language model over a vocabulary of 10000 and its gradient, each row times %scale
// (one over the rows that count, say): the logits are known, so nothing waits for a backward.
func.func @cross_entropy_with_gradient(%logits: tensor<?x10000xbf16>, %target: tensor<?xi64>,
    %scale: tensor<f32>) -> (tensor<?xf32>, tensor<?x10000xbf16>) {
  %loss, %lse = kiln.cross_entropy %logits, %target
      : (tensor<?x10000xbf16>, tensor<?xi64>) -> (tensor<?xf32>, tensor<?xf32>)
  %x = arith.extf %logits : tensor<?x10000xbf16> to tensor<?x10000xf32>
  %l = kiln.broadcast %lse dims [0] like %x : tensor<?xf32>, tensor<?x10000xf32> -> tensor<?x10000xf32>
  %log_p = arith.subf %x, %l : tensor<?x10000xf32>
  %p = math.exp %log_p fastmath<afn> : tensor<?x10000xf32>
  %column = kiln.index dim 1 like %x : tensor<?x10000xf32> -> tensor<?x10000xi64>
  %class = kiln.broadcast %target dims [0] like %x
      : tensor<?xi64>, tensor<?x10000xf32> -> tensor<?x10000xi64>
  %hit = arith.cmpi eq, %column, %class : tensor<?x10000xi64>
  %one = arith.constant dense<1.0> : tensor<f32>
  %ones = kiln.broadcast %one dims [] like %x : tensor<f32>, tensor<?x10000xf32> -> tensor<?x10000xf32>
  %less = arith.subf %p, %ones : tensor<?x10000xf32>
  %d = arith.select %hit, %less, %p : tensor<?x10000xi1>, tensor<?x10000xf32>
  %scales = kiln.broadcast %scale dims [] like %x
      : tensor<f32>, tensor<?x10000xf32> -> tensor<?x10000xf32>
  %g = arith.mulf %d, %scales : tensor<?x10000xf32>
  %dlogits = arith.truncf %g : tensor<?x10000xf32> to tensor<?x10000xbf16>
  return %loss, %dlogits : tensor<?xf32>, tensor<?x10000xbf16>
}
