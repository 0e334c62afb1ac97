// A small mmCIF file of one chain with idealised residues, whose tables a test may bend.
#pragma once

#include "Ideal.h"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace kiln::alphafold::test {

struct MiniAtom {
  std::string name, alternate = ".", residue, chain = "A", place, number, insertion = "?";
  Vector at = {};
  double occupancy = 1;
  int model = 1;
};

struct MiniCif {
  std::string id, sequence;
  std::vector<IdealResidue> residues;
  std::vector<std::string> names; // of the residues, of three letters
  std::vector<MiniAtom> atoms;
  bool hasSequence = true;
  std::string canonical, extra; // tables behind the others

  MiniCif(std::string id, std::string sequence, std::uint64_t seed = 7)
      : id(std::move(id)), sequence(std::move(sequence)) {
    models::Random random(seed);
    for (std::size_t i = 0; i < this->sequence.size(); ++i) {
      const int type = int(chemistry().letters.find(this->sequence[i]));
      residues.push_back(randomResidue(type, random));
      names.push_back(chemistry().names[type]);
      for (int atom = 0; atom < denseAtoms; ++atom)
        if (const int known = chemistry().atom14To37[type][atom]; known >= 0)
          atoms.push_back({chemistry().atomNames[known], ".", names.back(), "A",
                           std::to_string(i + 1), std::to_string(i + 101), "?",
                           residues.back().places[atom]});
    }
  }

  MiniAtom& atom(std::size_t residue, const std::string& name) {
    for (MiniAtom& one : atoms)
      if (one.place == std::to_string(residue + 1) && one.name == name)
        return one;
    throw std::out_of_range(name);
  }

  std::string text() const {
    std::string result = "data_" + id + "\n_entry.id " + id +
                         "\n_refine.ls_d_res_high 1.75\nloop_\n"
                         "_pdbx_audit_revision_history.ordinal\n"
                         "_pdbx_audit_revision_history.revision_date\n"
                         "2 2021-03-03\n1 2020-02-20\n#\n";
    if (hasSequence) {
      result += "loop_\n_entity_poly.entity_id\n_entity_poly.type\n"
                "_entity_poly.pdbx_seq_one_letter_code_can\n1 'polypeptide(L)' " +
                (canonical.empty() ? std::string("?") : canonical) +
                "\n#\nloop_\n_entity_poly_seq.entity_id\n_entity_poly_seq.num\n"
                "_entity_poly_seq.mon_id\n";
      for (std::size_t i = 0; i < names.size(); ++i)
        result += fmt::format("1 {} {}\n", i + 1, names[i]);
    }
    result += "#\nloop_\n";
    for (const char* column :
         {"group_PDB", "label_atom_id", "label_alt_id", "label_comp_id", "label_asym_id",
          "label_entity_id", "label_seq_id", "auth_seq_id", "pdbx_PDB_ins_code", "Cartn_x",
          "Cartn_y", "Cartn_z", "occupancy", "auth_asym_id", "pdbx_PDB_model_num"})
      result += std::string("_atom_site.") + column + "\n";
    for (const MiniAtom& one : atoms)
      result +=
          fmt::format("ATOM {} {} {} {} 1 {} {} {} {:.4f} {:.4f} {:.4f} {:.2f} {} {}\n", one.name,
                      one.alternate, one.residue, one.chain, one.place, one.number, one.insertion,
                      one.at[0], one.at[1], one.at[2], one.occupancy, one.chain, one.model);
    return result + "#\n" + extra;
  }
};

} // namespace kiln::alphafold::test
