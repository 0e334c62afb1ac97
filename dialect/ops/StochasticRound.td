def Kiln_StochasticRoundOp : Kiln_NamedOp<"stochastic_round"> {
  let summary = "Rounds fp32 to bf16 up or down at random, right on average";
  let description = [{
    `y = top 16 bits of (bits of x + r)`, where `r` is the low 16 bits of the i32 number that
    `kiln.random` has for this seed, offset and element. With `x` between neighbours `a < b` of
    bf16, `y = b` has the probability `(x - a) / (b - a)`, exactly: the mean of `y` is `x`. What
    bf16 holds exactly stays. Beyond the largest number of bf16 the neighbour is infinity; the
    mean is then infinite too. NaN stays NaN and infinity stays infinity.
    The gradient passes through.
    Source: Gupta et al., Deep Learning with Limited Numerical Precision (ICML 2015).

    ```mlir
    %y = kiln.stochastic_round %x, %seed, %offset : tensor<?x128xf32> -> tensor<?x128xbf16>
    ```
  }];
  let arguments = (ins RankedTensorOf<[F32]>:$input, Kiln_SeedTensor:$seed,
                       Kiln_SeedTensor:$offset);
  let results = (outs RankedTensorOf<[BF16]>:$output);
  let assemblyFormat = [{
    $input `,` $seed `,` $offset attr-dict `:` type($input) `->` type($output)
  }];
}
