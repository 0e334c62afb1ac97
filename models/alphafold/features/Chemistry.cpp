// See Chemistry.h.
#include "models/alphafold/features/Chemistry.h"

#include "models/common/Fail.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

extern "C" const struct {
  const char *name, *text;
} kiln_chemistry_files[];

namespace kiln::alphafold {

namespace {

using nlohmann::json;

/// Fills a Chemistry from the JSON, a table at a time; each looks up what stood before it.
struct Filling {
  const json& from;
  Chemistry& to;

  int atom(const json& name) const {
    const auto found = to.atomOfName(name.get<std::string>());
    if (!found)
      models::fail(ErrorKind::corrupt, "chemistry.json: {} is no atom of the 37", name.dump());
    return *found;
  }

  void names() const {
    for (int type = 0; type < residueTypes; ++type) {
      const auto letter = from.at("restypes").at(type).get<std::string>();
      to.letters += letter;
      to.names[type] = from.at("restype_1to3").at(letter).get<std::string>();
    }
    to.letters += 'X';
    from.at("atom_types").get_to(to.atomNames);
    const auto& ours = from.at("MAP_HHBLITS_AATYPE_TO_OUR_AATYPE");
    for (char letter = 'A'; letter <= 'Z'; ++letter)
      to.typeOfLetter[letter - 'A'] =
          ours.at(from.at("HHBLITS_AA_TO_ID").at(std::string(1, letter)).get<int>());
  }

  void atoms(int type) const {
    to.atom14To37[type].fill(-1);
    to.atom37To14[type].fill(-1);
    for (int i = 0; i < denseAtoms; ++i)
      to.exchanged[type][i] = i;
    if (type == unknownType)
      return;
    const auto& dense = from.at("restype_name_to_atom14_names").at(to.names[type]);
    for (int i = 0; i < denseAtoms; ++i)
      if (!dense.at(i).get<std::string>().empty()) {
        to.atom14To37[type][i] = atom(dense[i]);
        to.atom37To14[type][to.atom14To37[type][i]] = i;
      }
    const auto swaps = from.at("residue_atom_renaming_swaps").find(to.names[type]);
    if (swaps != from.at("residue_atom_renaming_swaps").end())
      for (const auto& [one, other] : swaps->items()) {
        const int a = to.atom37To14[type].at(atom(one)), b = to.atom37To14[type].at(atom(other));
        to.exchanged[type].at(a) = b;
        to.exchanged[type].at(b) = a;
      }
  }

  void chis(int type) const {
    for (auto& angle : to.chiAtoms[type])
      angle.fill(-1);
    to.isChiPiPeriodic[type].fill(false);
    if (type == unknownType)
      return;
    const auto& angles = from.at("chi_angles_atoms").at(to.names[type]);
    for (std::size_t chi = 0; chi < angles.size(); ++chi) {
      for (int i = 0; i < 4; ++i)
        to.chiAtoms[type].at(chi)[i] = atom(angles[chi].at(i));
      to.isChiPiPeriodic[type][chi] = from.at("chi_pi_periodic").at(type).at(chi) == 1.0;
    }
  }

  void groups(int type) const {
    for (auto& group : to.groupAtoms[type])
      group.fill(-1);
    to.isGroupAmbiguous[type].fill(false);
    to.groupOfAtom[type].fill(-1);
    to.placeInGroup[type] = {};
    if (type == unknownType)
      return;
    to.groupAtoms[type][0] = {atom("C"), atom("CA"), atom("N")};
    to.groupAtoms[type][3] = {atom("CA"), atom("C"), atom("O")};
    int last = 0;
    for (int chi = 0; chi < 4; ++chi)
      if (const auto& of = to.chiAtoms[type][chi]; of[0] >= 0) {
        to.groupAtoms[type][4 + chi] = {of[1], of[2], of[3]};
        last = 4 + chi;
      }
    if (from.at("residue_atom_renaming_swaps").contains(to.names[type]))
      to.isGroupAmbiguous[type][last] = true;
    for (const auto& placed : from.at("rigid_group_atom_positions").at(to.names[type])) {
      const int i = to.atom37To14[type].at(atom(placed.at(0)));
      placed.at(1).get_to(to.groupOfAtom[type].at(i));
      placed.at(2).get_to(to.placeInGroup[type][i]);
    }
  }
};

Chemistry read(const char* text) try {
  const json parsed = json::parse(text);
  Chemistry result{};
  const Filling filling{parsed, result};
  filling.names();
  for (int type = 0; type <= unknownType; ++type) {
    filling.atoms(type);
    filling.chis(type);
    filling.groups(type);
  }
  return result;
} catch (const std::exception& error) {
  models::fail(ErrorKind::corrupt, "the constants of amino acids cannot be read: {}", error.what());
}

template <typename Names> std::optional<int> placeOf(const Names& names, std::string_view name) {
  const auto* found = std::ranges::find(names, name);
  return found == names.end() ? std::nullopt : std::optional(int(found - names.begin()));
}

} // namespace

std::optional<int> Chemistry::typeOfName(std::string_view name) const {
  return placeOf(names, name);
}

std::optional<int> Chemistry::atomOfName(std::string_view name) const {
  return placeOf(atomNames, name);
}

const Chemistry& chemistry() {
  static const Chemistry known = read(kiln_chemistry_files[0].text);
  return known;
}

} // namespace kiln::alphafold
