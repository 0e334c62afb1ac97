// What the records of kiln.attention and kiln.attention_backward have in common.
#ifndef KILN_DIALECT_ATTENTION_TD
#define KILN_DIALECT_ATTENTION_TD

include "Attributes.td"

// One number a sequence and one more: where each begins, and where the last one ends.
def Kiln_StartsTensor : TensorRankOf<[I32], [1]>;

defvar Kiln_AttentionArguments = (ins
    Kiln_FloatTensor:$query, Kiln_FloatTensor:$key, Kiln_FloatTensor:$value,
    Optional<Kiln_FloatTensor>:$bias, Optional<Kiln_BoolTensor>:$mask,
    Optional<Kiln_StartsTensor>:$query_starts, Optional<Kiln_StartsTensor>:$key_starts,
    Optional<Kiln_SeedTensor>:$seed, Optional<Kiln_SeedTensor>:$offset,
    DefaultValuedAttr<F32Attr, "1.0f">:$scale, DefaultValuedAttr<F32Attr, "0.0f">:$softcap,
    DefaultValuedAttr<Kiln_CausalAttr, "::kiln::ir::Causal::none">:$causal,
    DefaultValuedAttr<I64Attr, "-1">:$window_left, DefaultValuedAttr<I64Attr, "-1">:$window_right,
    DefaultValuedAttr<F32Attr, "0.0f">:$p);

defvar Kiln_AttentionText = [{
    $query `,` $key `,` $value (`bias` $bias^)? (`mask` $mask^)?
    (`starts` $query_starts^ `,` $key_starts)? (`dropout` $seed^ `,` $offset `p` $p)? attr-dict
}];

#endif
