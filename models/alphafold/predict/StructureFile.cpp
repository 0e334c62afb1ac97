// See StructureFile.h.
#define GEMMI_WRITE_IMPLEMENTATION
#define USE_STD_SNPRINTF // no library of its own for numbers
#include "models/alphafold/predict/StructureFile.h"

#include <gemmi/polyheur.hpp>
#include <gemmi/to_cif.hpp>
#include <gemmi/to_mmcif.hpp>
#include <gemmi/to_pdb.hpp>

#include <sstream>

namespace kiln::alphafold {

namespace {

gemmi::Structure structureOf(const PredictedChain& predicted) {
  gemmi::Chain chain("A");
  gemmi::Entity entity("1");
  entity.entity_type = gemmi::EntityType::Polymer;
  entity.polymer_type = gemmi::PolymerType::PeptideL;
  entity.subchains = {"A"};
  int number = 0, serial = 0;
  for (const PredictedResidue& one : predicted.residues) {
    ++number;
    entity.full_sequence.push_back(one.name);
    if (one.atoms.empty())
      continue;
    gemmi::Residue residue;
    residue.seqid = gemmi::SeqId(number, ' ');
    residue.name = one.name;
    residue.entity_type = gemmi::EntityType::Polymer;
    residue.entity_id = "1";
    residue.subchain = "A";
    residue.label_seq = number;
    for (const PredictedAtom& placed : one.atoms) {
      gemmi::Atom atom;
      atom.name = placed.name;
      atom.serial = ++serial;
      atom.element = gemmi::Element(placed.name.substr(0, 1).c_str());
      atom.pos = gemmi::Position(placed.place[0], placed.place[1], placed.place[2]);
      atom.occ = 1;
      atom.b_iso = static_cast<float>(one.confidence);
      residue.atoms.push_back(atom);
    }
    chain.residues.push_back(residue);
  }
  gemmi::Structure structure;
  structure.name = predicted.name;
  structure.info["_entry.id"] = predicted.name;
  structure.entities.push_back(entity);
  structure.models.emplace_back("1");
  structure.models.back().chains.push_back(chain);
  return structure;
}

} // namespace

std::string pdbText(const PredictedChain& chain) {
  std::ostringstream text;
  gemmi::PdbWriteOptions options;
  options.cryst1_record = false; // there is no crystal
  gemmi::write_pdb(structureOf(chain), text, options);
  return text.str();
}

std::string mmcifText(const PredictedChain& chain) {
  gemmi::MmcifOutputGroups groups(/*all=*/true);
  groups.group_pdb = true;
  groups.cell = groups.symmetry = false; // there is no crystal
  std::ostringstream text;
  gemmi::cif::write_cif_to_stream(text, gemmi::make_mmcif_document(structureOf(chain), groups));
  return text.str();
}

} // namespace kiln::alphafold
