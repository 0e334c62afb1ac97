include "Attention.td"

def Kiln_AttentionBackwardOp : Kiln_ElementaryOp<"attention_backward", [
    AttrSizedOperandSegments, AttrSizedResultSegments]> {
  let summary = "Gradients of attention, of which as many as are asked for";
  let description = [{
    For the operands and attributes of a `kiln.attention`, its `lse`, the gradient `dO` of its output
    `[L..., h, s, dv]`, and `delta = sum(dO output) - dlse` over the last dimension, where `dlse` is
    the gradient of `lse` (0 if it has none). `delta` and `lse` are fp32, one a row of the query. At
    open places, with `p` and the scores `x` as there,

        p[i, j]  = exp(x[i, j] - lse[i])
        dv[j]    = sum over i of dropout(p[i, j]) dO[i]
        dx[i, j] = p[i, j] (dropout(dO[i] . v[j]) - delta[i])
        dbias    = dx, summed over the dimensions along which the bias is the same
        dz[i, j] = scale dx[i, j] (1 - tanh(scale q[i] . k[j] / softcap)^2)   (softcap 0: scale dx)
        dq[i]    = sum over j of dz[i, j] k[j]
        dk[j]    = sum over i of dz[i, j] q[i]

    A head of keys and values gets the sum over the heads of queries that share it. Rows whose `lse`
    is -inf have no open place: their gradients are zero, and they give nothing to others; with a
    bias, nor do rows whose `lse` is beyond 2^25, whose probabilities fp32 does not tell. Each
    result is a word before its type: `query`, `key`, `value`, `bias`; what is not asked for is not
    computed. There is no second derivative.
    Source: Dao et al., FlashAttention (2022).

    ```mlir
    %dq, %dk, %dv = kiln.attention_backward %do, %delta, %lse, %q, %k, %v {scale = 0.125 : f32}
        : (tensor<16x?x64xbf16>, tensor<16x?xf32>, tensor<16x?xf32>,
           tensor<16x?x64xbf16>, tensor<4x?x64xbf16>, tensor<4x?x64xbf16>)
       -> query tensor<16x?x64xf32> key tensor<4x?x64xf32> value tensor<4x?x64xf32>
    ```
  }];
  let arguments = !con((ins Kiln_FloatTensor:$output_gradient, Kiln_FloatTensor:$delta,
                            Kiln_FloatTensor:$lse), Kiln_AttentionArguments);
  let results = (outs Optional<Kiln_FloatTensor>:$d_query, Optional<Kiln_FloatTensor>:$d_key,
                      Optional<Kiln_FloatTensor>:$d_value, Optional<Kiln_FloatTensor>:$d_bias);
  let assemblyFormat = !strconcat("$output_gradient `,` $delta `,` $lse `,`", Kiln_AttentionText, [{
    `:` `(` type(operands) `)` `->` (`query` type($d_query)^)? (`key` type($d_key)^)?
    (`value` type($d_value)^)? (`bias` type($d_bias)^)?
  }]);
  let extraClassDeclaration = [{
    NumbersTaken numbersTaken(unsigned operand);
    bool sample(int64_t step);
    bool perturb(double unit, uint64_t seed);
  }];
}
