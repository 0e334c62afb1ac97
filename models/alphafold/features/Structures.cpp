// See Structures.h. gemmi reads the syntax; what tables mean is read here.
#include "models/alphafold/features/Structures.h"

#include "models/alphafold/features/Align.h"
#include "models/alphafold/features/Chemistry.h"
#include "models/alphafold/features/CifTable.h"
#include "models/common/Fail.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_map>

namespace kiln::alphafold {

namespace {

constexpr std::size_t longestChain = 50000; // residues; the archive's longest have about 5,000

/// A residue of SEQRES.
struct Monomer {
  std::string name; // ALA
  char letter = 'X';
};

/// What a file says of its polymers, by entity.
struct Entity {
  std::vector<Monomer> monomers;
  std::string canonical;         // letters of the parents, if the file has them
  std::optional<bool> isProtein; // if the file says so
};

struct AtomSite {
  std::string name;
  float occupancy;
  std::array<float, 3> place;
};

/// Atoms of one residue of a chain, as its authors number it.
struct ObservedResidue {
  std::string name;
  std::int64_t place = -1; // in SEQRES, if the file says
  std::vector<AtomSite> atoms;
};

struct ObservedChain {
  std::string author, entity;
  std::vector<ObservedResidue> residues;
  std::unordered_map<std::string, std::size_t> placeOf; // in `residues`, by numbers and name
};

class Reader {
 public:
  explicit Reader(const Text& text) : document(text) {}

  Structure read() {
    Structure result;
    result.id = document.value("_entry.id");
    std::ranges::transform(result.id, result.id.begin(),
                           [](unsigned char c) { return tolower(c); });
    result.resolution = resolution();
    for (const CifRow& row : document.table("_pdbx_audit_revision_history.", {"revision_date"}, 0))
      if (const std::string date = row.text(0);
          !date.empty() && (result.releaseDate.empty() || date < result.releaseDate))
        result.releaseDate = date;
    readEntities();
    readAtoms();
    for (const auto& [label, chain] : chains)
      if (auto made = chainOf(label, chain))
        result.chains.push_back(std::move(*made));
    if (result.chains.empty())
      document.refuse("no chain of a protein has atoms in it; _atom_site must have some of a "
                      "polypeptide's residues");
    return result;
  }

 private:
  float resolution() const {
    for (const char* tag :
         {"_refine.ls_d_res_high", "_em_3d_reconstruction.resolution", "_reflns.d_resolution_high"})
      for (const std::string& text : document.values(tag))
        if (const auto number = parseNumber(text); number && *number > 0 && *number < 1000)
          return float(*number);
    return 0;
  }

  void readEntities() {
    for (const CifRow& row :
         document.table("_pdbx_struct_mod_residue.", {"label_comp_id", "parent_comp_id"}, 0))
      parents.emplace(row.text(0), row.text(1));
    for (const CifRow& row : document.table(
             "_entity_poly.", {"entity_id", "?type", "?pdbx_seq_one_letter_code_can"}, 0)) {
      Entity& entity = entities[row.text(0)];
      if (row.has(1))
        entity.isProtein = row.text(1).starts_with("polypeptide");
      for (char c : row.text(2))
        if (c > ' ')
          entity.canonical += c;
    }
    for (const CifRow& row :
         document.table("_entity_poly_seq.", {"entity_id", "num", "mon_id"}, 0)) {
      const auto number = row.integer(1);
      Entity& entity = entities[row.text(0)];
      const auto known = static_cast<std::int64_t>(entity.monomers.size());
      if (number == known && known > 0)
        continue; // another residue at the same place
      if (number != known + 1 || entity.monomers.size() >= longestChain)
        row.refuse(fmt::format("num is {} behind {}; numbers go up by one, to at most {}", number,
                               known, longestChain));
      entity.monomers.push_back({row.text(2)});
    }
    for (const CifRow& row : document.table("_struct_asym.", {"id", "entity_id"}, 0))
      entityOf.emplace(row.text(0), row.text(1));
    for (auto& [id, entity] : entities) {
      spell(entity);
      if (!entity.isProtein)
        entity.isProtein =
            std::ranges::any_of(entity.monomers, [](auto& m) { return m.letter != 'X'; });
    }
  }

  /// Letters of the parents: of the twenty themselves, else as the file spells the whole sequence
  /// or names the parent.
  void spell(Entity& entity) const {
    const Chemistry& known = chemistry();
    for (std::size_t i = 0; i < entity.monomers.size(); ++i) {
      Monomer& monomer = entity.monomers[i];
      monomer.letter = letterOf(monomer.name);
      if (monomer.letter == 'X' && entity.canonical.size() == entity.monomers.size())
        monomer.letter = entity.canonical[i];
      if (known.letters.find(monomer.letter) == std::string::npos)
        monomer.letter = 'X';
    }
  }

  char letterOf(const std::string& name) const {
    const Chemistry& known = chemistry();
    if (const auto type = known.typeOfName(name))
      return known.letters[*type];
    if (name == "MSE")
      return 'M';
    const auto parent = parents.find(name);
    const auto type = parent == parents.end() ? std::nullopt : known.typeOfName(parent->second);
    return type ? known.letters[*type] : 'X';
  }

  void readAtoms() {
    std::string model;
    for (const CifRow& row : document.table(
             "_atom_site.",
             {"label_atom_id", "label_comp_id", "label_asym_id", "Cartn_x", "Cartn_y", "Cartn_z",
              "?label_seq_id", "?auth_seq_id", "?pdbx_PDB_ins_code", "?auth_asym_id",
              "?label_entity_id", "?occupancy", "?pdbx_PDB_model_num", "?group_PDB"},
             1)) {
      if (model.empty())
        model = row.text(12);
      if (row.text(12) != model)
        continue;
      addAtom(row);
    }
  }

  void addAtom(const CifRow& row) {
    const std::string label = row.text(2);
    ObservedChain& chain = chains[label];
    if (chain.residues.empty()) {
      chain.author = row.has(9) ? row.text(9) : label;
      const auto known = entityOf.find(label);
      chain.entity = row.has(10) ? row.text(10) : known != entityOf.end() ? known->second : "";
    }
    AtomSite atom{row.text(0), row.has(11) ? float(row.number(11)) : 1.0F, {}};
    for (int axis = 0; axis < 3; ++axis) {
      constexpr double farthest = 1e5; // angstrom
      const double place = row.number(3 + axis);
      if (std::abs(place) > farthest)
        row.refuse(
            fmt::format("a coordinate is {}; at most {} angstrom are allowed", place, farthest));
      atom.place[axis] = float(place);
    }
    const std::string key = row.text(6) + ' ' + row.text(7) + ' ' + row.text(8) + ' ' + row.text(1);
    // Atoms of a residue need not follow each other: residues that share a place may alternate.
    const auto [found, isNew] = chain.placeOf.emplace(key, chain.residues.size());
    if (isNew) {
      chain.residues.push_back({row.text(1), row.has(6) ? row.integer(6) - 1 : -1, {}});
      checkPlace(row, chain);
    }
    chain.residues[found->second].atoms.push_back(std::move(atom));
  }

  void checkPlace(const CifRow& row, const ObservedChain& chain) const {
    const auto entity = entities.find(chain.entity);
    if (!row.has(6) || entity == entities.end() || entity->second.monomers.empty())
      return;
    const auto length = static_cast<std::int64_t>(entity->second.monomers.size());
    if (const auto place = chain.residues.back().place; place < 0 || place >= length)
      row.refuse(fmt::format("label_seq_id is {}; entity {} has residues 1 to {}", place + 1,
                             inQuotes(chain.entity), length));
  }

  /// None of what is no protein: other polymers, sugars, water.
  std::optional<ChainStructure> chainOf(const std::string& label,
                                        const ObservedChain& observed) const {
    static const Entity unknown;
    const auto known = entities.find(observed.entity);
    Entity entity = known == entities.end() ? unknown : known->second;
    const bool isNamed = !entity.monomers.empty();
    if (isNamed && !*entity.isProtein)
      return {};
    if (!isNamed &&
        std::ranges::any_of(entities, [](auto& e) { return !e.second.monomers.empty(); }))
      return {}; // a ligand, which may be an amino acid
    std::vector<std::int64_t> places;
    if (!isNamed) { // no SEQRES: what has atoms is the sequence, if it is one of amino acids
      for (const ObservedResidue& residue : observed.residues)
        entity.monomers.push_back({residue.name, letterOf(residue.name)});
      if (std::ranges::all_of(entity.monomers, [](auto& m) { return m.letter == 'X'; }))
        return {};
      for (std::size_t i = 0; i < observed.residues.size(); ++i)
        places.push_back(static_cast<std::int64_t>(i));
    } else {
      places = placesOf(observed, entity);
    }
    ChainStructure chain{observed.author, label, {}, {}, {}};
    for (const Monomer& monomer : entity.monomers)
      chain.sequence += monomer.letter;
    const auto length = static_cast<std::int64_t>(chain.sequence.size());
    chain.positions = Array<float>({length, atomTypes, 3});
    chain.mask = Array<float>({length, atomTypes});
    for (std::size_t i = 0; i < places.size(); ++i)
      if (const auto place = places[i]; place >= 0)
        if (observed.residues[i].name == entity.monomers[place].name)
          placeAtoms(observed.residues[i], place, chain);
    return chain;
  }

  std::vector<std::int64_t> placesOf(const ObservedChain& observed, const Entity& entity) const {
    std::vector<std::int64_t> places;
    std::string whole, part;
    for (const ObservedResidue& residue : observed.residues) {
      places.push_back(residue.place);
      part += letterOf(residue.name);
    }
    if (std::ranges::any_of(places, [](auto place) { return place >= 0; }))
      return places;
    for (const Monomer& monomer : entity.monomers)
      whole += monomer.letter;
    return placesIn(whole, part);
  }

  /// Atoms of a residue into the arrays, the one with the largest occupancy for each name.
  static void placeAtoms(const ObservedResidue& residue, std::int64_t place,
                         ChainStructure& chain) {
    const Chemistry& known = chemistry();
    const bool isModified = !known.typeOfName(residue.name);
    const auto type = static_cast<int>(known.letters.find(chain.sequence[place]));
    std::array<float, atomTypes> occupancy{};
    for (const AtomSite& atom : residue.atoms) {
      const bool isSelenium = residue.name == "MSE" && atom.name == "SE";
      const auto index = known.atomOfName(isSelenium ? "SD" : atom.name);
      if (!index || (isModified && type != unknownType && !known.hasAtom(type, *index)))
        continue;
      float& seen = chain.mask(place, *index);
      if (seen == 1 && atom.occupancy <= occupancy[*index])
        continue;
      seen = 1;
      occupancy[*index] = atom.occupancy;
      std::ranges::copy(atom.place, chain.positions.at(place, *index));
    }
    if (residue.name == "ARG")
      nameArginine(place, chain);
  }

  static void nameArginine(std::int64_t place, ChainStructure& chain) {
    const Chemistry& known = chemistry();
    const int cd = *known.atomOfName("CD"), one = *known.atomOfName("NH1"),
              two = *known.atomOfName("NH2");
    if (chain.mask(place, cd) * chain.mask(place, one) * chain.mask(place, two) == 0)
      return;
    const auto distance = [&](int atom) {
      const float *a = chain.positions.at(place, atom), *b = chain.positions.at(place, cd);
      return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
    };
    if (distance(one) > distance(two))
      std::swap_ranges(chain.positions.at(place, one), chain.positions.at(place, one) + 3,
                       chain.positions.at(place, two));
  }

  CifDocument document;
  std::map<std::string, Entity> entities;
  std::map<std::string, std::string> parents;  // of modified residues
  std::map<std::string, std::string> entityOf; // of chains by label
  std::map<std::string, ObservedChain> chains; // by label
};

} // namespace

std::int64_t ChainStructure::resolved() const {
  const int ca = *chemistry().atomOfName("CA");
  std::int64_t count = 0;
  for (std::int64_t residue = 0; residue < mask.shape[0]; ++residue)
    count += mask(residue, ca) == 1 ? 1 : 0;
  return count;
}

const ChainStructure* Structure::chain(const std::string& name) const {
  for (auto member : {&ChainStructure::author, &ChainStructure::label})
    for (const ChainStructure& chain : chains)
      if (chain.*member == name)
        return &chain;
  return nullptr;
}

Structure parseMmcif(const Text& text) {
  return Reader(text).read();
}

} // namespace kiln::alphafold
