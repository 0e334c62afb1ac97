"""AlphaFold 2's modules, written from the pseudo-code of the paper's supplement (Jumper et al.
2021, Algorithms 2 to 19 and 31) as plainly as it reads: loops over heads and einsum, no care for
speed. What the C++ modules are compared with; nothing here was made from them. `p` maps a module's
parameters by name, `c` is its configuration."""

import torch

from reference_base import layer_norm, linear, one_hot, sigmoid, softmax, sub
from reference_structure import from_three_points, pseudo_beta, structure_module


# Attention: Algorithms 7, 8, 13, 14, 17, 19

def heard(mask):
    """Of a mask [..., K] of keys, 0 where all are masked: the supplement leaves open what such a
    query hears, the model lets it hear nothing."""
    return (mask.sum(-1)[..., None, None] > 0).to(mask.dtype)


def attention(p, heads, q_in, kv_in, bias, mask, inf=1e9, gated=True):
    """q_in [..., Q, c], kv_in [..., K, c], bias(head) [..., Q, K] or None, mask [..., K]."""
    q = linear(p, "linear_q", q_in)
    k, v = linear(p, "linear_k", kv_in), linear(p, "linear_v", kv_in)
    size = q.shape[-1] // heads
    out = []
    for h in range(heads):
        part = slice(h * size, (h + 1) * size)
        a = torch.einsum("...qc,...kc->...qk", q[..., part], k[..., part]) / size ** 0.5
        if bias is not None:
            a = a + bias(h)
        a = softmax(a + inf * (mask[..., None, :] - 1)) * heard(mask)
        o = torch.einsum("...qk,...kc->...qc", a, v[..., part])
        if gated:
            o = o * sigmoid(linear(p, "linear_g", q_in)[..., part])
        out.append(o)
    return linear(p, "linear_o", torch.cat(out, -1))


def msa_row(p, c, m, z, mask):
    x = layer_norm(p, "layer_norm_m", m)
    b = linear(p, "linear_z", layer_norm(p, "layer_norm_z", z))
    return attention(sub(p, "mha"), c["msa_heads"], x, x, lambda h: b[..., h], mask)


def msa_column(p, c, m, mask):
    p = sub(p, "_msa_att")
    x = layer_norm(p, "layer_norm_m", m).transpose(0, 1)
    return attention(sub(p, "mha"), c["msa_heads"], x, x, None, mask.T).transpose(0, 1)


def msa_global_column(p, c, m, mask):
    x = layer_norm(p, "layer_norm_m", m)
    p = sub(p, "global_attention")
    heads = c["msa_heads"]
    mean = torch.einsum("sic,si->ic", x, mask) / (mask.sum(0)[:, None] + 1e-10)
    q, k, v = linear(p, "linear_q", mean), linear(p, "linear_k", x), linear(p, "linear_v", x)
    g = sigmoid(linear(p, "linear_g", x))
    size = q.shape[-1] // heads
    out = []
    for h in range(heads):
        part = slice(h * size, (h + 1) * size)
        a = torch.einsum("ic,sic->is", q[:, part], k) / size ** 0.5
        a = softmax(a + 1e9 * (mask.T - 1)) * (mask.T.sum(-1, keepdim=True) > 0)
        out.append(g[..., part] * torch.einsum("is,sic->ic", a, v))
    return linear(p, "linear_o", torch.cat(out, -1))


# The rest of a block: Algorithms 9 to 16

def transition(p, c, x):
    y = linear(p, "linear_1", layer_norm(p, "layer_norm", x))
    return linear(p, "linear_2", torch.clamp(y, min=0))


def outer_product_mean(p, c, m, mask):
    x = layer_norm(p, "layer_norm", m)
    a = linear(p, "linear_1", x) * mask[..., None]
    b = linear(p, "linear_2", x) * mask[..., None]
    o = torch.einsum("sic,sjd->ijcd", a, b).flatten(2)
    return linear(p, "linear_out", o) / (1e-3 + torch.einsum("si,sj->ij", mask, mask)[..., None])


def triangle_multiplication(p, z, mask, equation):
    x = layer_norm(p, "layer_norm_in", z)
    a = sigmoid(linear(p, "linear_a_g", x)) * linear(p, "linear_a_p", x) * mask[..., None]
    b = sigmoid(linear(p, "linear_b_g", x)) * linear(p, "linear_b_p", x) * mask[..., None]
    y = layer_norm(p, "layer_norm_out", torch.einsum(equation, a, b))
    return sigmoid(linear(p, "linear_g", x)) * linear(p, "linear_z", y)


def triangle_outgoing(p, c, z, mask):
    return triangle_multiplication(p, z, mask, "ikc,jkc->ijc")


def triangle_incoming(p, c, z, mask):
    return triangle_multiplication(p, z, mask, "kic,kjc->ijc")


def triangle_starting(p, c, z, mask, heads="pair_heads"):
    x = layer_norm(p, "layer_norm", z)
    b = linear(p, "linear", x)
    return attention(sub(p, "mha"), c[heads], x, x, lambda h: b[..., h], mask)


def triangle_ending(p, c, z, mask, heads="pair_heads"):
    """Row j of the result's transpose: pairs (i, j) look at (k, j), with the bias of (k, i)."""
    x = layer_norm(p, "layer_norm", z)
    b = linear(p, "linear", x)
    columns = x.transpose(0, 1)
    y = attention(sub(p, "mha"), c[heads], columns, columns, lambda h: b[..., h].T, mask.T)
    return y.transpose(0, 1)


def pair_stack(p, c, z, mask):
    z = z + triangle_outgoing(sub(p, "tri_mul_out"), c, z, mask)
    z = z + triangle_incoming(sub(p, "tri_mul_in"), c, z, mask)
    z = z + triangle_starting(sub(p, "tri_att_start"), c, z, mask)
    z = z + triangle_ending(sub(p, "tri_att_end"), c, z, mask)
    return z + transition(sub(p, "pair_transition"), c, z)


def block(p, c, m, z, msa_mask, pair_mask, column):
    m = m + msa_row(sub(p, "msa_att_row"), c, m, z, msa_mask)
    m = m + column(sub(p, "msa_att_col"), c, m, msa_mask)
    m = m + transition(sub(p, "msa_transition"), c, m)
    z = z + outer_product_mean(sub(p, "outer_product_mean"), c, m, msa_mask)
    return m, pair_stack(sub(p, "pair_stack"), c, z, pair_mask)


def evoformer(p, c, m, z, msa_mask, pair_mask):
    for i in range(c["evoformer_blocks"]):
        m, z = block(sub(p, f"blocks.{i}"), c, m, z, msa_mask, pair_mask, msa_column)
    return m, z, linear(p, "linear", m[0])


def extra_msa_stack(p, c, m, z, msa_mask, pair_mask):
    for i in range(c["extra_blocks"]):
        m, z = block(sub(p, f"blocks.{i}"), c, m, z, msa_mask, pair_mask, msa_global_column)
    return z


def template_pair_stack(p, c, t, mask):
    for i in range(c["template_blocks"]):
        b = sub(p, f"blocks.{i}")
        t = t + triangle_starting(sub(b, "tri_att_start"), c, t, mask, "template_heads")
        t = t + triangle_ending(sub(b, "tri_att_end"), c, t, mask, "template_heads")
        t = t + triangle_outgoing(sub(b, "tri_mul_out"), c, t, mask)
        t = t + triangle_incoming(sub(b, "tri_mul_in"), c, t, mask)
        t = t + transition(sub(b, "pair_transition"), c, t)
    return layer_norm(p, "layer_norm", t)


def template_pointwise(p, c, t, z, mask):
    """t [R, R, T, c], z [R, R, c], mask [T]."""
    y = attention(sub(p, "mha"), c["template_heads"], z[..., None, :], t, None,
                  mask.expand(t.shape[:-1]), inf=1e5, gated=False)
    return y[..., 0, :]


# Embedders: Algorithms 3, 4, 5, 32 and section 1.7.1

def input_embedder(p, c, features):
    f, reach = features["target_feat"], c["relative_positions"]
    d = features["residue_index"][:, None] - features["residue_index"][None, :]
    bins = torch.arange(-reach, reach + 1)
    nearest = (d[..., None] - bins).abs().argmin(-1)
    z = linear(p, "linear_tf_z_i", f)[:, None] + linear(p, "linear_tf_z_j", f)[None, :]
    z = z + linear(p, "linear_relpos", one_hot(nearest, len(bins)))
    return linear(p, "linear_msa_m", features["msa_feat"]) + linear(p, "linear_tf_m", f)[None], z


def distance_bins(x, first, last, count):
    d = torch.sqrt(((x[:, None] - x[None, :]) ** 2).sum(-1))
    width = (last - first) / (count - 1)
    found = torch.zeros(*d.shape, count, dtype=x.dtype)
    for b in range(count):
        above = d > first + b * width
        below = d < first + (b + 1) * width if b + 1 < count else torch.ones_like(above)
        found[..., b] = (above & below).double()
    return found


def recycling_embedder(p, c, m, z, before_m, before_z, positions):
    d = distance_bins(positions, 3.25, 20.75, c["recycling_bins"])
    m = torch.cat([m[:1] + layer_norm(p, "layer_norm_m", before_m)[None], m[1:]])
    return m, z + layer_norm(p, "layer_norm_z", before_z) + linear(p, "linear", d)


def template_pair_features(features, t, c):
    """d_ij bins, pseudo-beta mask, residue j, residue i, unit vector, backbone mask; Table 1."""
    residues = features["template_aatype"].shape[1]
    x, exists = features["template_all_atom_positions"][t], features["template_all_atom_mask"][t]
    backbone = exists[:, 0] * exists[:, 1] * exists[:, 2]
    both = backbone[:, None] * backbone[None, :]
    beta = features["template_pseudo_beta_mask"][t]
    kind = one_hot(features["template_aatype"][t], c["amino_acids"])
    d = distance_bins(features["template_pseudo_beta"][t], 3.25, 50.75, c["template_bins"])
    rows = []
    for i in range(residues):
        row = []
        r, origin = from_three_points(x[i, 0], x[i, 1], x[i, 2])
        for j in range(residues):
            unit = torch.zeros(3, dtype=x.dtype)
            if c["template_unit_vectors"]:
                v = r.T @ (x[j, 1] - origin)
                unit = v / torch.sqrt((v ** 2).sum() + 1e-6) * both[i, j]
            row.append(torch.cat([d[i, j], (beta[i] * beta[j])[None], kind[j], kind[i], unit,
                                  both[i, j][None]]) * both[i, j])
        rows.append(torch.stack(row))
    return torch.stack(rows)


def template_angle_features(features, c):
    return torch.cat([one_hot(features["template_aatype"], c["amino_acids"]),
                      features["template_torsion_angles_sin_cos"].flatten(-2),
                      features["template_alt_torsion_angles_sin_cos"].flatten(-2),
                      features["template_torsion_angles_mask"]], -1)


def template_embedder(p, c, features, z, pair_mask):
    templates = []
    for t in range(len(features["template_mask"])):
        told = template_pair_features(features, t, c)
        x = linear(sub(p, "template_pair_embedder"), "linear", told)
        templates.append(template_pair_stack(sub(p, "template_pair_stack"), c, x, pair_mask))
    y = template_pointwise(sub(p, "template_pointwise_att"), c, torch.stack(templates, 2), z,
                           features["template_mask"])
    a = sub(p, "template_single_embedder")
    rows = linear(a, "linear_1", template_angle_features(features, c))
    rows = linear(a, "linear_2", torch.clamp(rows, min=0))
    return rows, y * float(features["template_mask"].sum() > 0)


# Heads (section 1.9) and the model: Algorithms 2 and 31

def heads(p, c, m, z, s, structure):
    x = layer_norm(p, "plddt.layer_norm", structure)
    x = torch.clamp(linear(p, "plddt.linear_1", x), min=0)
    x = torch.clamp(linear(p, "plddt.linear_2", x), min=0)
    lddt = linear(p, "plddt.linear_3", x)
    half = linear(p, "distogram.linear", z)
    width = 100 / c["lddt_bins"]
    mean = sum(softmax(lddt)[:, b] * (b + 0.5) * width for b in range(c["lddt_bins"]))
    return {"lddt": lddt, "distogram": half + half.transpose(0, 1), "lddt_mean": mean,
            "masked_msa": linear(p, "masked_msa.linear", m),
            "resolved": linear(p, "experimentally_resolved.linear", s),
            "aligned_error": linear(p, "tm.linear", z)}


def alphafold_pass(p, c, chemistry, features, before):
    m, z = input_embedder(sub(p, "input_embedder"), c, features)
    m, z = recycling_embedder(sub(p, "recycling_embedder"), c, m, z, *before)
    msa_mask, seq_mask = features["msa_mask"], features["seq_mask"]
    pair_mask = seq_mask[:, None] * seq_mask[None, :]
    clusters = len(m)
    if "template_mask" in features:
        rows, update = template_embedder(sub(p, "template_embedder"), c, features, z, pair_mask)
        m, z = torch.cat([m, rows]), z + update
        msa_mask = torch.cat([msa_mask, features["template_torsion_angles_mask"][..., 2]])
    extra = linear(sub(p, "extra_msa_embedder"), "linear", features["extra_msa_feat"])
    z = extra_msa_stack(sub(p, "extra_msa_stack"), c, extra, z, features["extra_msa_mask"],
                        pair_mask)
    m, z, s = evoformer(sub(p, "evoformer"), c, m, z, msa_mask, pair_mask)
    found = structure_module(sub(p, "structure_module"), c, chemistry, s, z, features["aatype"],
                             seq_mask)
    predicted = heads(sub(p, "aux_heads"), c, m[:clusters], z, s, found["single"])
    found |= {name: predicted[name] for name in
              ("lddt", "distogram", "masked_msa", "resolved", "aligned_error")}
    return found, (m[0], z, pseudo_beta(found["positions"], features["aatype"]))


def alphafold(p, c, chemistry, passes):
    residues = len(passes[0]["aatype"])
    before = (torch.zeros(residues, c["msa"]).double(),
              torch.zeros(residues, residues, c["pair"]).double(),
              torch.zeros(residues, 3).double())
    for features in passes:
        found, before = alphafold_pass(p, c, chemistry, features,
                                       tuple(x.detach() for x in before))
    return found
