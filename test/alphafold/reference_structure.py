"""AlphaFold 2's structure module, written from the pseudo-code of the supplement (Algorithms 20 to
25) residue by residue. See reference.py."""

import torch

from reference_base import layer_norm, linear, softmax, sub

def from_three_points(a, b, c):
    """Algorithm 21; columns are the axes."""
    v1, v2 = c - b, a - b
    e1 = v1 / torch.linalg.norm(v1)
    u2 = v2 - e1 * (e1 @ v2)
    e2 = u2 / torch.linalg.norm(u2)
    e3 = torch.stack([e1[1] * e2[2] - e1[2] * e2[1], e1[2] * e2[0] - e1[0] * e2[2],
                      e1[0] * e2[1] - e1[1] * e2[0]])
    return torch.stack([e1, e2, e3], 1), b


def update_frame(u):
    """Algorithm 23 for one residue: six numbers to a rotation and a translation."""
    b, c, d = u[0], u[1], u[2]
    n = torch.sqrt(1 + b * b + c * c + d * d)
    a, b, c, d = 1 / n, b / n, c / n, d / n
    r = torch.stack([
        torch.stack([a * a + b * b - c * c - d * d, 2 * b * c - 2 * a * d, 2 * b * d + 2 * a * c]),
        torch.stack([2 * b * c + 2 * a * d, a * a - b * b + c * c - d * d, 2 * c * d - 2 * a * b]),
        torch.stack([2 * b * d - 2 * a * c, 2 * c * d + 2 * a * b, a * a - b * b - c * c + d * d])])
    return r, u[3:]


def compose(first, second):
    return first[0] @ second[0], (first[0] @ second[1][..., None])[..., 0] + first[1]


def points(p, s, frames):
    """All x, then all y, then all z; [R, points, 3], global."""
    x = linear(p, "linear", s)
    n = x.shape[-1] // 3
    local = torch.stack([x[:, :n], x[:, n:2 * n], x[:, 2 * n:]], -1)
    return torch.einsum("iab,ipb->ipa", frames[0], local) + frames[1][:, None]


def ipa(p, c, s, z, frames, mask):
    """Algorithm 22."""
    heads, size = c["point_heads"], c["point_head"]
    n_q, n_v = c["query_points"], c["value_points"]
    q, kv, bias = linear(p, "linear_q", s), linear(p, "linear_kv", s), linear(p, "linear_b", z)
    q_points = points(sub(p, "linear_q_points"), s, frames)
    kv_points = points(sub(p, "linear_kv_points"), s, frames)
    w_c, w_l = (2 / (9 * n_q)) ** 0.5, (1 / 3) ** 0.5
    gamma = torch.log(1 + torch.exp(p["head_weights"]))
    scalar, point, pair = [], [], []
    for h in range(heads):
        k = kv[:, 2 * h * size:(2 * h + 1) * size]
        v = kv[:, (2 * h + 1) * size:(2 * h + 2) * size]
        of_q = q_points[:, h * n_q:(h + 1) * n_q]
        start = h * (n_q + n_v)
        of_k, of_v = kv_points[:, start:start + n_q], kv_points[:, start + n_q:start + n_q + n_v]
        d = ((of_q[:, None] - of_k[None, :]) ** 2).sum((-1, -2))
        a = q[:, h * size:(h + 1) * size] @ k.T / size ** 0.5 + bias[..., h]
        a = softmax(w_l * (a - gamma[h] * w_c / 2 * d) + 1e5 * (mask[:, None] * mask[None, :] - 1))
        scalar.append(a @ v)
        pair.append(torch.einsum("ij,ijc->ic", a, z))
        o = torch.einsum("ij,jpa->ipa", a, of_v) - frames[1][:, None]
        point.append(torch.einsum("iba,ipb->ipa", frames[0], o))
    point = torch.cat(point, 1)
    norm = torch.sqrt((point ** 2).sum(-1) + 1e-8)
    everything = [*scalar, point[..., 0], point[..., 1], point[..., 2], norm, *pair]
    return linear(p, "linear_out", torch.cat(everything, -1))


def turn_about_x(angle):
    """Algorithm 25; (sine, cosine)."""
    one, zero = torch.ones_like(angle[0]), torch.zeros_like(angle[0])
    return (torch.stack([torch.stack([one, zero, zero]), torch.stack([zero, angle[1], -angle[0]]),
                         torch.stack([zero, angle[0], angle[1]])]), torch.zeros(3).double())


class Chemistry:
    """Literature values by residue, from the tables of amino acids."""

    def __init__(self, tables):
        self.tables = tables

    def name(self, aatype):
        if aatype == 20:
            return "UNK"
        return self.tables["restype_1to3"][self.tables["restypes"][aatype]]

    def atoms14(self, aatype):
        return self.tables["restype_name_to_atom14_names"][self.name(aatype)]

    def atoms(self, aatype):
        """Name: (group, position in it)."""
        if aatype == 20:
            return {}
        entries = self.tables["rigid_group_atom_positions"][self.name(aatype)]
        return {a: (g, torch.tensor(x, dtype=torch.float64)) for a, g, x in entries}

    def hinge(self, aatype, torsion):
        """The frame in which torsion 0 to 6 turns, seen from the group it hangs on."""
        identity = torch.eye(3).double(), torch.zeros(3).double()
        x = {a: position for a, (_, position) in self.atoms(aatype).items()}
        if aatype == 20 or torsion == 0:
            return identity

        def frame(axis, side, origin):
            rotation, _ = from_three_points(origin + side, origin, origin + axis)
            return rotation, origin

        if torsion == 1:
            return frame(x["N"] - x["CA"], torch.tensor([1.0, 0, 0]).double(), x["N"])
        if torsion == 2:
            return frame(x["C"] - x["CA"], x["CA"] - x["N"], x["C"])
        chis = self.tables["chi_angles_atoms"][self.name(aatype)]
        if torsion - 3 >= len(chis):
            return identity
        a, b, c, _ = (x[n] for n in chis[torsion - 3])
        if torsion == 3:
            return frame(c - b, a - b, c)
        return frame(c, torch.tensor([-1.0, 0, 0]).double(), c)


def all_atom(chemistry, frames, angles, aatype):
    """Algorithm 24: rotations [R, 8, 3, 3], translations [R, 8, 3], positions [R, 14, 3]."""
    rotations, translations, positions = [], [], []
    for i, kind in enumerate(aatype.tolist()):
        backbone = frames[0][i], frames[1][i]
        groups = [backbone]
        for f in range(7):
            hinge = compose(chemistry.hinge(kind, f), turn_about_x(angles[i, f]))
            groups.append(compose(groups[-1] if f > 3 else backbone, hinge))
        rotations.append(torch.stack([g[0] for g in groups]))
        translations.append(torch.stack([g[1] for g in groups]))
        atoms = chemistry.atoms(kind)
        row = []
        for name in chemistry.atoms14(kind):
            if name:
                g, x = atoms[name]
                row.append(groups[g][0] @ x + groups[g][1])
            else:
                row.append(torch.zeros(3).double())
        positions.append(torch.stack(row))
    return torch.stack(rotations), torch.stack(translations), torch.stack(positions)


def pseudo_beta(positions, aatype):
    return torch.stack([x[1] if kind == 7 else x[4] for x, kind in zip(positions, aatype.tolist())])


def structure_module(p, c, chemistry, s, z, aatype, mask):
    """Algorithm 20; a dictionary of all that is found, in angstrom."""
    residues = len(s)
    initial, z = layer_norm(p, "layer_norm_s", s), layer_norm(p, "layer_norm_z", z)
    s = linear(p, "linear_in", initial)
    r, t = torch.eye(3).double().expand(residues, 3, 3), torch.zeros(residues, 3).double()
    found = {"rotations": [], "translations": [], "angles": [], "raw_angles": []}
    for _ in range(c["structure_layers"]):
        s = layer_norm(p, "layer_norm_ipa", s + ipa(sub(p, "ipa"), c, s, z, (r, t), mask))
        x = torch.clamp(linear(p, "transition.layers.0.linear_1", s), min=0)
        x = torch.clamp(linear(p, "transition.layers.0.linear_2", x), min=0)
        s = layer_norm(p, "transition.layer_norm", s + linear(p, "transition.layers.0.linear_3", x))
        updates = [update_frame(u) for u in linear(p, "bb_update.linear", s)]
        r, t = compose((r, t), tuple(torch.stack(part) for part in zip(*updates)))
        a = sub(p, "angle_resnet")
        x = linear(a, "linear_in", torch.clamp(s, min=0))
        x = x + linear(a, "linear_initial", torch.clamp(initial, min=0))
        for i in range(c["resnet_blocks"]):
            y = torch.clamp(linear(a, f"layers.{i}.linear_1", torch.clamp(x, min=0)), min=0)
            x = x + linear(a, f"layers.{i}.linear_2", y)
        raw = linear(a, "linear_out", torch.clamp(x, min=0)).reshape(residues, 7, 2)
        found["raw_angles"].append(raw)
        found["angles"].append(raw / torch.linalg.norm(raw, dim=-1, keepdim=True))
        found["rotations"].append(r)
        found["translations"].append(10 * t)
        r = r.detach()
    rotations, translations, positions = all_atom(
        chemistry, (found["rotations"][-1], found["translations"][-1]), found["angles"][-1], aatype)
    found = {name: torch.stack(layers) for name, layers in found.items()}
    return found | {"group_rotations": rotations, "group_translations": translations,
                    "positions": positions, "single": s}
