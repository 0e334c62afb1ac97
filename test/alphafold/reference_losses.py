"""AlphaFold 2's losses and metrics, written from the supplement (section 1.9, Algorithms 26 to 29)
as plainly as it reads, pair by pair where that is short enough. What the C++ losses are compared
with; nothing here was made from them. Lengths in angstrom."""

import math

import torch

from reference_base import one_hot, softmax

N, CA, C = 0, 1, 2  # of 14 atoms and of 37


def norm(x, eps=0.0):
    return torch.sqrt((x ** 2).sum(-1) + eps)


def fape(frames, x, true_frames, true_x, frame_mask, point_mask, clamped):
    """Algorithm 28; one structure."""
    total, count = 0, 0
    for i in range(len(frame_mask)):
        local = (x - frames[1][i]) @ frames[0][i]  # rows times R are R transposed times columns
        true = (true_x - true_frames[1][i]) @ true_frames[0][i]
        d = norm(local - true, 1e-4)
        d = clamped * torch.clamp(d, max=10) + (1 - clamped) * d
        total = total + frame_mask[i] * (d * point_mask).sum() / 10
        count = count + frame_mask[i] * point_mask.sum()
    return total / (count + 1e-4)


def swapped(positions, truth):
    """Algorithm 26: for each residue, 1 if the alternative names fit better."""
    gt, alt = truth["atom14_gt_positions"], truth["atom14_alt_gt_positions"]
    exists, ambiguous = truth["atom14_gt_exists"], truth["atom14_atom_is_ambiguous"]
    better = []
    for i in range(len(gt)):
        off = {"gt": 0.0, "alt": 0.0}
        for a in range(14):
            if not exists[i, a] * ambiguous[i, a]:
                continue
            for j in range(len(gt)):
                for b in range(14):
                    if exists[j, b] * (1 - ambiguous[j, b]):
                        d = norm(positions[i, a] - positions[j, b])
                        off["gt"] += abs(d - norm(gt[i, a] - gt[j, b]))
                        off["alt"] += abs(d - norm(alt[i, a] - alt[j, b]))
        better.append(float(off["alt"] < off["gt"]))
    return torch.tensor(better).double()


def structure_losses(found, truth):
    better = swapped(found["positions"].detach(), truth)

    def choose(first, alternative):
        return torch.stack([b if w else a for a, b, w in zip(first, alternative, better)])

    positions = choose(truth["atom14_gt_positions"], truth["atom14_alt_gt_positions"])
    exists = choose(truth["atom14_gt_exists"], truth["atom14_alt_gt_exists"])
    groups = choose(truth["rigidgroups_gt_frames"], truth["rigidgroups_alt_gt_frames"])
    group_mask = truth["rigidgroups_gt_exists"]
    backbone = truth["rigidgroups_gt_frames"][:, 0]
    layers = [fape((r, t), t, (backbone[:, :3, :3], backbone[:, :3, 3]), backbone[:, :3, 3],
                   group_mask[:, 0], group_mask[:, 0], truth["use_clamped_fape"])
              for r, t in zip(found["backbone_rotation"], found["backbone_translation"])]
    flat = groups.reshape(-1, 4, 4)
    sidechain = fape((found["group_rotation"].reshape(-1, 3, 3),
                      found["group_translation"].reshape(-1, 3)), found["positions"].reshape(-1, 3),
                     (flat[:, :3, :3], flat[:, :3, 3]), positions.reshape(-1, 3),
                     group_mask.flatten(), exists.flatten(), 1.0)
    return {"swapped": better, "backbone": sum(layers) / len(layers), "sidechain": sidechain,
            "torsion": torsion(found, truth)}


def torsion(found, truth):
    """Algorithm 27, over chi angles."""
    angle, length, count = 0, 0, 0
    layers, residues = found["angles"].shape[:2]
    chi_mask = truth["torsion_angles_mask"][:, 3:]
    for layer in range(layers):
        for i in range(residues):
            for k in range(3, 7):
                x = found["angles"][layer, i, k]
                to = ((x - truth["torsion_angles_sin_cos"][i, k]) ** 2).sum()
                to_alternative = ((x - truth["alt_torsion_angles_sin_cos"][i, k]) ** 2).sum()
                angle = angle + chi_mask[i, k - 3] * torch.minimum(to, to_alternative)
            off = torch.abs(norm(found["raw_angles"][layer, i], 1e-6) - 1).sum()
            length = length + truth["seq_mask"][i] * off
            count += truth["seq_mask"][i]
    return 0.5 * angle / (layers * chi_mask.sum()) + 0.01 * length / (7 * count)


# Violations, section 1.9.11

def atom_exists(chemistry, truth):
    rows = [[float(bool(name)) for name in chemistry.atoms14(kind)]
            for kind in truth["aatype"].tolist()]
    return torch.tensor(rows).double() * truth["seq_mask"][:, None]


def excess(value, mean, deviation):
    return torch.clamp(torch.sqrt((value - mean) ** 2 + 1e-6) - 12 * deviation, min=0)


def bounds(chemistry, kind):
    """[14, 14] lowest and highest distances within a residue."""
    lowest, highest = torch.zeros(14, 14).double(), torch.zeros(14, 14).double()
    if kind == 20:
        return lowest, highest
    tables, name = chemistry.tables, chemistry.name(kind)
    names = chemistry.atoms14(kind)
    bond = {}
    for a, b, mean, deviation in tables["bonds"][name]:
        bond[a, b] = bond[b, a] = mean, deviation
    held = dict(bond)
    for a, b, c, degrees, spread in tables["angles"][name]:
        (x, dx), (y, dy) = bond[a, b], bond[b, c]
        g, dg = math.radians(degrees), math.radians(spread)
        z = math.sqrt(x * x + y * y - 2 * x * y * math.cos(g))
        parts = (x * y * math.sin(g) * dg, (x - y * math.cos(g)) * dx, (y - x * math.cos(g)) * dy)
        held[a, c] = held[c, a] = z, math.sqrt(sum(part ** 2 for part in parts)) / z
    radius = tables["van_der_waals_radius"]
    for i, a in enumerate(names):
        for j, b in enumerate(names):
            if a and b and i != j:
                if (a, b) in held:
                    mean, deviation = held[a, b]
                    lowest[i, j], highest[i, j] = mean - 12 * deviation, mean + 12 * deviation
                else:
                    lowest[i, j], highest[i, j] = radius[a[0]] + radius[b[0]] - 1.5, 1e10
    return lowest, highest


def violations(chemistry, x, truth):
    exists, kinds = atom_exists(chemistry, truth), truth["aatype"].tolist()
    index = truth["residue_index"].tolist()
    found = {"bond": 0, "angle_ca_c_n": 0, "angle_c_n_ca": 0}
    counts = dict.fromkeys(found, 1e-6)

    def unit(v):
        return v / norm(v, 1e-6)

    def add(name, value, there):
        found[name] = found[name] + value * there
        counts[name] = counts[name] + there

    for i in range(len(kinds) - 1):
        if index[i] + 1 != index[i + 1]:
            continue
        mean, deviation = (1.341, 0.016) if kinds[i + 1] == 14 else (1.329, 0.014)
        ca, c, n, next_ca = x[i, CA], x[i, C], x[i + 1, N], x[i + 1, CA]
        there = exists[i, C] * exists[i + 1, N]
        add("bond", excess(norm(n - c, 1e-6), mean, deviation), there)
        add("angle_ca_c_n", excess((unit(ca - c) * unit(n - c)).sum(), -0.4473, 0.0311),
            there * exists[i, CA])
        add("angle_c_n_ca", excess((unit(c - n) * unit(next_ca - n)).sum(), -0.5203, 0.0353),
            there * exists[i + 1, CA])
    total = 0
    radius = chemistry.tables["van_der_waals_radius"]
    for i, kind in enumerate(kinds):
        lowest, highest = bounds(chemistry, kind)
        for a in range(14):
            for b in range(14):
                if a != b and exists[i, a] * exists[i, b]:
                    d = norm(x[i, a] - x[i, b])
                    total = total + torch.clamp(lowest[a, b] - d, min=0)
                    total = total + torch.clamp(d - highest[a, b], min=0)
        for j, other in enumerate(kinds):
            if index[i] >= index[j]:
                continue
            for a, name in enumerate(chemistry.atoms14(kind)):
                for b, second in enumerate(chemistry.atoms14(other)):
                    bonded = index[i] + 1 == index[j] and (name, second) == ("C", "N")
                    if not exists[i, a] * exists[j, b] or bonded or (name, second) == ("SG", "SG"):
                        continue
                    least = radius[name[0]] + radius[second[0]] - 1.5
                    total = total + torch.clamp(least - norm(x[i, a] - x[j, b]), min=0)
    return {name: found[name] / counts[name] for name in found} | {
        "clash": 2 * total / (exists.sum() + 1e-6)}


# Heads, sections 1.9.6 to 1.9.10

def cross_entropy(logits, target, mask, eps=0.0):
    """Mean over what is masked in of -log of the target's share; `eps` as in the published code."""
    share = (softmax(logits) * one_hot(target, logits.shape[-1])).sum(-1)
    return -(torch.log(share) * mask).sum() / (mask.sum() + eps)


def lddt(x, truth, mask):
    """Of each residue."""
    found = []
    for i in range(len(x)):
        score, count = 0.0, 0.0
        for j in range(len(x)):
            d = float(norm(truth[i] - truth[j]))
            if i != j and mask[i] * mask[j] and d < 15:
                off = abs(d - float(norm(x[i] - x[j])))
                score += sum(off < limit for limit in (0.5, 1, 2, 4)) / 4
                count += 1
        found.append(score / count if count else 1.0)
    return torch.tensor(found).double()


def bin_of(distances, first, last, bins):
    step = (last - first) / (bins - 2)
    return sum((distances > first + k * step).long() for k in range(bins - 1))


def head_losses(chemistry, heads, found, truth):
    beta = truth["pseudo_beta"]
    target = bin_of(norm(beta[:, None] - beta[None, :]), 2.3125, 21.6875,
                    heads["distogram"].shape[-1])
    pair = truth["pseudo_beta_mask"][:, None] * truth["pseudo_beta_mask"][None, :]
    losses = {"distogram": cross_entropy(heads["distogram"], target, pair, 1e-6),
              "masked_msa": cross_entropy(heads["masked_msa"], truth["true_msa"],
                                          truth["bert_mask"], 1e-8)}
    sharp = float(0.1 <= float(truth["resolution"]) <= 3)
    known = truth["all_atom_mask"][:, CA]
    x = found["positions"][:, CA].detach()
    bins = heads["lddt"].shape[-1]
    score = lddt(x, truth["all_atom_positions"][:, CA], known)
    target = torch.clamp((score * bins).long(), max=bins - 1)
    losses["lddt"] = sharp * cross_entropy(heads["lddt"], target, known)

    names, atoms = chemistry.tables["atom_types"], torch.zeros(len(known), 37).double()
    for i, kind in enumerate(truth["aatype"].tolist()):
        for name in chemistry.atoms14(kind):
            if name:
                atoms[i, names.index(name)] = truth["seq_mask"][i]
    p = 1 / (1 + torch.exp(-heads["resolved"]))
    seen = truth["all_atom_mask"]
    entropy = -(seen * torch.log(p) + (1 - seen) * torch.log(1 - p))
    losses["resolved"] = sharp * (entropy * atoms).sum() / atoms.sum()

    there = truth["rigidgroups_gt_exists"][:, 0]
    r, t = found["backbone_rotation"][-1].detach(), found["backbone_translation"][-1].detach()
    should = truth["rigidgroups_gt_frames"][:, 0]
    error = torch.zeros(len(t), len(t)).double()
    for i in range(len(t)):
        for j in range(len(t)):
            error[i, j] = norm(r[i].T @ (t[j] - t[i])
                               - should[i, :3, :3].T @ (should[j, :3, 3] - should[i, :3, 3]))
    target = bin_of(error, 0, 31, heads["aligned_error"].shape[-1])
    losses["aligned_error"] = sharp * cross_entropy(heads["aligned_error"], target,
                                                    there[:, None] * there[None, :])
    return losses


def total(chemistry, heads, found, truth, finetune):
    a, b = structure_losses(found, truth), head_losses(chemistry, heads, found, truth)
    y = 0.5 * a["backbone"] + 0.5 * a["sidechain"] + a["torsion"] + 0.3 * b["distogram"]
    y = y + 2 * b["masked_msa"] + 0.01 * b["lddt"]
    if finetune:
        y = y + 0.01 * b["resolved"] + 0.1 * b["aligned_error"]
        y = y + sum(violations(chemistry, found["positions"], truth).values())
    return y * torch.sqrt(truth["seq_mask"].sum())


# Metrics

def superposed(x, truth, mask):
    """By the quaternion of the largest eigenvalue (Horn 1987), not by Kabsch's decomposition."""
    w = mask / mask.sum()
    center, true_center = w @ x, w @ truth
    s = (x - center).T @ ((truth - true_center) * mask[:, None])
    k = torch.tensor([
        [s[0, 0] + s[1, 1] + s[2, 2], s[1, 2] - s[2, 1], s[2, 0] - s[0, 2], s[0, 1] - s[1, 0]],
        [s[1, 2] - s[2, 1], s[0, 0] - s[1, 1] - s[2, 2], s[0, 1] + s[1, 0], s[2, 0] + s[0, 2]],
        [s[2, 0] - s[0, 2], s[0, 1] + s[1, 0], -s[0, 0] + s[1, 1] - s[2, 2], s[1, 2] + s[2, 1]],
        [s[0, 1] - s[1, 0], s[2, 0] + s[0, 2], s[1, 2] + s[2, 1], -s[0, 0] - s[1, 1] + s[2, 2]]])
    a, b, c, d = torch.linalg.eigh(k)[1][:, -1]
    r = torch.stack([
        torch.stack([a * a + b * b - c * c - d * d, 2 * (b * c - a * d), 2 * (b * d + a * c)]),
        torch.stack([2 * (b * c + a * d), a * a - b * b + c * c - d * d, 2 * (c * d - a * b)]),
        torch.stack([2 * (b * d - a * c), 2 * (c * d + a * b), a * a - b * b - c * c + d * d])])
    return (x - center) @ r.T + true_center


def metrics(x, truth, mask):
    moved, kept = superposed(x, truth, mask), [i for i in range(len(x)) if mask[i]]
    d = norm(moved - truth)
    squares = [float(norm(x[i] - x[j]) - norm(truth[i] - truth[j])) ** 2
               for i in kept for j in kept if i != j]

    def gdt(limits):
        shares = [sum(float(d[i]) <= limit for limit in limits) / 4 for i in kept]
        return torch.tensor(sum(shares) / len(kept)).double()

    score = lddt(x, truth, mask)
    return {"lddt": score, "lddt_mean": (score * mask).sum() / mask.sum(), "superposed": moved,
            "drmsd": torch.tensor(math.sqrt(sum(squares) / len(squares)), dtype=torch.float64),
            "gdt_ts": gdt((1, 2, 4, 8)), "gdt_ha": gdt((0.5, 1, 2, 4))}
