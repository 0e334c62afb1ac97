"""A protein small enough for a CPU: a helix of idealised backbones as mmCIF, and an alignment."""

import math

THREE = dict(zip("ARNDCQEGHILKMFPSTWYV",
                 ("ALA ARG ASN ASP CYS GLN GLU GLY HIS ILE LEU LYS MET PHE PRO SER THR TRP TYR "
                  "VAL").split()))
SEQUENCE = "MKVLAAGIRELDKWTSEFLNQYHP"
# Radius (angstrom), turn (degrees) and rise (angstrom) of atoms of a residue in an alpha helix.
HELIX = {"N": (1.55, -28.0, -0.90), "CA": (2.29, 0.0, 0.0), "C": (1.68, 26.0, 1.16),
         "O": (2.00, 25.0, 2.39), "CB": (3.30, -12.0, -0.60)}


def mmcif(name, sequence=SEQUENCE, turn=100.0):
    """Chain A; `turn` degrees from residue to residue, 100 in an alpha helix."""
    lines = [f"data_{name}", f"_entry.id {name}", "_refine.ls_d_res_high 1.50", "loop_",
             "_entity_poly_seq.entity_id", "_entity_poly_seq.num", "_entity_poly_seq.mon_id"]
    lines += [f"1 {i + 1} {THREE[letter]}" for i, letter in enumerate(sequence)]
    lines += ["loop_"] + [f"_atom_site.{tag}" for tag in (
        "group_PDB label_atom_id label_alt_id label_comp_id label_asym_id label_entity_id "
        "label_seq_id auth_seq_id pdbx_PDB_ins_code Cartn_x Cartn_y Cartn_z occupancy auth_asym_id "
        "pdbx_PDB_model_num").split()]
    for i, letter in enumerate(sequence):
        for atom, (radius, angle, rise) in HELIX.items():
            if letter == "G" and atom == "CB":
                continue
            at = math.radians(turn * i + angle)
            x, y, z = radius * math.cos(at), radius * math.sin(at), 1.5 * i + rise
            lines.append(f"ATOM {atom} . {THREE[letter]} A 1 {i + 1} {i + 1} ? {x:.3f} {y:.3f} "
                         f"{z:.3f} 1.00 A 1")
    return "\n".join(lines) + "\n#\n"


def a3m(sequence=SEQUENCE, rows=12):
    """The sequence and others that differ at some residues."""
    text = f">query\n{sequence}\n"
    for row in range(1, rows):
        letters = list(sequence)
        for place in range(row % 5, len(letters), 5):
            letters[place] = "ARNDCQEGHILKMFPSTWYV"[(row * 7 + place) % 20]
        text += f">row{row}\n{''.join(letters)}\n"
    return text


def write(folder, name, **how):
    """NAME.cif and NAME_A/rows.a3m in a folder."""
    (folder / f"{name}_A").mkdir(parents=True)
    (folder / f"{name}.cif").write_text(mmcif(name, **how))
    sequence = how.get("sequence", SEQUENCE)
    (folder / f"{name}_A" / "rows.a3m").write_text(a3m(sequence))
