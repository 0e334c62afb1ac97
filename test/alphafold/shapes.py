"""Names and shapes of every module's parameters, from its configuration: OpenFold's names, as
parameters.txt lists them for the published model."""


def linear(name, out, size, bias=True):
    shapes = {name + ".weight": (out, size)}
    return shapes | {name + ".bias": (out,)} if bias else shapes


def norm(name, width):
    return {name + ".weight": (width,), name + ".bias": (width,)}


def within(prefix, shapes):
    return {f"{prefix}.{name}": shape for name, shape in shapes.items()}


def attention(c_q, c_kv, heads, head, out, gated=True):
    wide = heads * head
    shapes = linear("linear_q", wide, c_q, False) | linear("linear_k", wide, c_kv, False)
    shapes |= linear("linear_v", wide, c_kv, False) | linear("linear_o", out, wide)
    return shapes | linear("linear_g", wide, c_q) if gated else shapes


def msa_row(c, channels, head):
    return (norm("layer_norm_m", channels) | norm("layer_norm_z", c["pair"])
            | linear("linear_z", c["msa_heads"], c["pair"], False)
            | within("mha", attention(channels, channels, c["msa_heads"], head, channels)))


def msa_column(c):
    return within("_msa_att", norm("layer_norm_m", c["msa"]) | within(
        "mha", attention(c["msa"], c["msa"], c["msa_heads"], c["msa_head"], c["msa"])))


def msa_global_column(c):
    channels, head = c["extra_msa"], c["extra_head"]
    wide = c["msa_heads"] * head
    return norm("layer_norm_m", channels) | within("global_attention", (
        linear("linear_q", wide, channels, False) | linear("linear_k", head, channels, False)
        | linear("linear_v", head, channels, False) | linear("linear_g", wide, channels)
        | linear("linear_o", channels, wide)))


def transition(channels, factor):
    return (norm("layer_norm", channels) | linear("linear_1", factor * channels, channels)
            | linear("linear_2", channels, factor * channels))


def outer_product_mean(c, channels):
    hidden = c["outer_product"]
    return (norm("layer_norm", channels) | linear("linear_1", hidden, channels)
            | linear("linear_2", hidden, channels) | linear("linear_out", c["pair"], hidden ** 2))


def triangle_multiplication(pair, hidden):
    shapes = linear("linear_g", pair, pair) | linear("linear_z", pair, hidden)
    shapes |= norm("layer_norm_in", pair) | norm("layer_norm_out", hidden)
    for name in ("linear_a_p", "linear_a_g", "linear_b_p", "linear_b_g"):
        shapes |= linear(name, hidden, pair)
    return shapes


def triangle_attention(pair, heads, head):
    return (norm("layer_norm", pair) | linear("linear", heads, pair, False)
            | within("mha", attention(pair, pair, heads, head, pair)))


def pair_stack(c):
    product = triangle_multiplication(c["pair"], c["triangle"])
    attend = triangle_attention(c["pair"], c["pair_heads"], c["pair_head"])
    return (within("tri_mul_out", product) | within("tri_mul_in", product)
            | within("tri_att_start", attend) | within("tri_att_end", attend)
            | within("pair_transition", transition(c["pair"], c["transition"])))


def block(c, channels, head, column):
    return (within("msa_att_row", msa_row(c, channels, head))
            | within("msa_transition", transition(channels, c["transition"]))
            | within("outer_product_mean", outer_product_mean(c, channels))
            | within("pair_stack", pair_stack(c)) | within("msa_att_col", column))


def repeated(count, shapes):
    return {k: v for i in range(count) for k, v in within(f"blocks.{i}", shapes).items()}


def evoformer(c):
    shapes = repeated(c["evoformer_blocks"], block(c, c["msa"], c["msa_head"], msa_column(c)))
    return shapes | linear("linear", c["single"], c["msa"])


def extra_msa_stack(c):
    return repeated(c["extra_blocks"],
                    block(c, c["extra_msa"], c["extra_head"], msa_global_column(c)))


def template_pair_stack(c):
    pair = c["template_pair"]
    product = triangle_multiplication(pair, c["template_triangle"])
    attend = triangle_attention(pair, c["template_heads"], c["template_head"])
    one = (within("tri_att_start", attend) | within("tri_att_end", attend)
           | within("tri_mul_out", product) | within("tri_mul_in", product)
           | within("pair_transition", transition(pair, c["template_transition"])))
    return repeated(c["template_blocks"], one) | norm("layer_norm", pair)


def template_pointwise(c):
    return within("mha", attention(c["pair"], c["template_pair"], c["template_heads"],
                                   c["template_head"], c["pair"], gated=False))


def template_embedder(c):
    return (within("template_single_embedder",
                   linear("linear_1", c["msa"], 57) | linear("linear_2", c["msa"], c["msa"]))
            | within("template_pair_embedder", linear("linear", c["template_pair"], 88))
            | within("template_pair_stack", template_pair_stack(c))
            | within("template_pointwise_att", template_pointwise(c)))


def input_embedder(c):
    return (linear("linear_tf_z_i", c["pair"], 22) | linear("linear_tf_z_j", c["pair"], 22)
            | linear("linear_tf_m", c["msa"], 22) | linear("linear_msa_m", c["msa"], 49)
            | linear("linear_relpos", c["pair"], 2 * c["relative_positions"] + 1))


def recycling_embedder(c):
    return (linear("linear", c["pair"], c["recycling_bins"]) | norm("layer_norm_m", c["msa"])
            | norm("layer_norm_z", c["pair"]))


def ipa(c):
    heads, head, single = c["point_heads"], c["point_head"], c["single"]
    n_q, n_v = c["query_points"], c["value_points"]
    return ({"head_weights": (heads,)} | linear("linear_q", heads * head, single)
            | linear("linear_q_points.linear", heads * n_q * 3, single)
            | linear("linear_kv", 2 * heads * head, single)
            | linear("linear_kv_points.linear", heads * (n_q + n_v) * 3, single)
            | linear("linear_b", heads, c["pair"])
            | linear("linear_out", single, heads * (head + 4 * n_v + c["pair"])))


def structure_module(c):
    single, hidden = c["single"], c["resnet"]
    shapes = norm("layer_norm_s", single) | norm("layer_norm_z", c["pair"])
    shapes |= linear("linear_in", single, single) | within("ipa", ipa(c))
    shapes |= norm("layer_norm_ipa", single) | norm("transition.layer_norm", single)
    for i in (1, 2, 3):
        shapes |= linear(f"transition.layers.0.linear_{i}", single, single)
    shapes |= linear("bb_update.linear", 6, single)
    shapes |= linear("angle_resnet.linear_in", hidden, single)
    shapes |= linear("angle_resnet.linear_initial", hidden, single)
    for i in range(c["resnet_blocks"]):
        for j in (1, 2):
            shapes |= linear(f"angle_resnet.layers.{i}.linear_{j}", hidden, hidden)
    return shapes | linear("angle_resnet.linear_out", 14, hidden)


def heads(c):
    single, hidden = c["single"], c["lddt_hidden"]
    return (norm("plddt.layer_norm", single) | linear("plddt.linear_1", hidden, single)
            | linear("plddt.linear_2", hidden, hidden)
            | linear("plddt.linear_3", c["lddt_bins"], hidden)
            | linear("distogram.linear", c["distogram_bins"], c["pair"])
            | linear("masked_msa.linear", c["msa_classes"], c["msa"])
            | linear("experimentally_resolved.linear", 37, single)
            | linear("tm.linear", c["aligned_error_bins"], c["pair"]))


def alphafold(c):
    return (within("input_embedder", input_embedder(c))
            | within("recycling_embedder", recycling_embedder(c))
            | within("template_embedder", template_embedder(c))
            | within("extra_msa_embedder", linear("linear", c["extra_msa"], 25))
            | within("extra_msa_stack", extra_msa_stack(c)) | within("evoformer", evoformer(c))
            | within("structure_module", structure_module(c)) | within("aux_heads", heads(c)))
