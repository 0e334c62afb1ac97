include "Attention.td"

def Kiln_AttentionOp : Kiln_ElementaryOp<"attention", [AttrSizedOperandSegments]> {
  let summary = "Softmax of scaled products of queries and keys, times the values";
  let description = [{
    The query is `[L..., h, s, d]`, the key `[L..., hk, t, d]`, the value `[L..., hk, t, dv]`, of one
    element type, with any number of leading dimensions `L`. `h` is a multiple of `hk`: neighbouring
    heads of queries share a head of keys and values (grouped-query and multi-query attention). `d`
    and `dv` are constants from 1 to 256; `s`, `t` and `L` may be dynamic. For query `i` and key `j`
    of each head,

        x[i, j] = scale q[i] . k[j]
        x[i, j] = softcap tanh(x[i, j] / softcap)       where softcap is not 0
        x[i, j] = x[i, j] + bias[i, j]                  where there is a bias
        p[i, j] = exp(x[i, j] - lse[i]),                lse[i] = log(sum over open j of exp(x[i, j]))
        output[i] = sum over open j of dropout(p[i, j]) v[j]

    A place is open unless one of these hides it or its score `x` is -inf:

    - `mask`, an i1 tensor, where it is false. Bias and mask have the rank of the scores
      `[L..., h, s, t]` and their sizes, or 1 where they are the same along a dimension.
    - `causal`: with `first`, query `i` sees the keys `j <= i` (the first rows are aligned); with
      `last`, `j <= i + t - s` (the last rows are aligned).
    - `window_left`, `window_right`, unlimited where -1: `i + a - window_left <= j` and
      `j <= i + a + window_right`, where `a` is `t - s` with `last` and else 0.
    - `starts`, for packed sequences, without `L`: rows `starts[n]` to `starts[n + 1] - 1` of the
      queries attend to those of the keys, and `i`, `j`, `s`, `t` in the rules above count within
      the sequence. Starts ascend; a sequence may be empty. Rows outside of all sequences have no
      open place.

    A row without an open place gives zeros, `lse` -inf and zero gradients. Other rows with NaN in
    the query, or in an open score, are NaN. Values and keys at hidden places must be finite: kernels
    multiply them by zero. So must the bias there, or -inf.

    A bias may hide by numbers, as -1e9: a row all of whose places they hide has the mean of the
    values, as far as fp32 tells its scores apart. Of probabilities it tells nothing where `lse` is
    beyond 2^25: with a bias the gradients of such a row are zero. Kernels that hold a bias in shared
    memory divide it by the scale, and take what is below fp32's numbers then for -inf.

    Dropout decides as `kiln.dropout` does, by the numbers of `kiln.random` for this seed and offset
    in the shape of the scores, also where sequences are packed. `lse`, the natural logarithm, is
    fp32, one a row, and does not depend on the dropout. The gradient is `kiln.attention_backward`,
    which computes the scores again. Products of fp32 are those of two tf32 parts each, off by about
    2^-21 of the product of the lengths; where rows are wider than 128, sums over keys are off by
    2^-18 too.
    Sources: Vaswani et al., Attention Is All You Need (2017); Ainslie et al., GQA (2023); Dao et al.,
    FlashAttention (2022), for the backward; Gemma Team, Gemma 2 (2024), for softcap.

    ```mlir
    %o, %lse = kiln.attention %q, %k, %v bias %b dropout %seed, %offset p 0.1
        {scale = 0.125 : f32, causal = #kiln.causal<last>}
        : (tensor<?x16x?x64xbf16>, tensor<?x4x?x64xbf16>, tensor<?x4x?x64xbf16>,
           tensor<1x16x?x?xf32>, tensor<i64>, tensor<i64>)
       -> (tensor<?x16x?x64xbf16>, tensor<?x16x?xf32>)
    ```
  }];
  let arguments = Kiln_AttentionArguments;
  let results = (outs Kiln_FloatTensor:$output, Kiln_FloatTensor:$lse);
  let assemblyFormat = !strconcat(Kiln_AttentionText,
                                  "`:` functional-type(operands, results)");
  let extraClassDeclaration = [{
    bool isSaved() { return true; }
    NumbersTaken numbersTaken(unsigned operand);
    bool sample(int64_t step);
    bool perturb(double unit, uint64_t seed);
    static const OpFunction *asFunction();
  }];
}
