// See AtomTables.h.
#include "models/alphafold/model/AtomTables.h"

#include "models/alphafold/model/Rigid.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>
#include <string>

// NOLINTNEXTLINE(readability-identifier-naming): the name that embed_text gives
extern "C" const struct {
  const char *name, *text;
} kiln_chemistry_files[];

namespace kiln::alphafold {

using at::Tensor;
using nlohmann::json;

namespace {

using Point = std::array<double, 3>;
constexpr std::int64_t residues = 21, atoms = 14, groups = 8, kinds = 37;

Tensor zeros(at::IntArrayRef sizes) {
  return at::zeros(sizes, at::kDouble);
}

Tensor tensorOf(const Point& point) {
  return at::tensor(at::ArrayRef<double>(point), at::kDouble);
}

/// One residue, by the names of its atoms.
struct Residue {
  const json& all;
  std::string name;                         // of three letters
  std::map<std::string, std::int64_t> slot; // of 14
  std::map<std::string, Point> position;    // in its group
  std::map<std::string, std::int64_t> group;

  Residue(const json& all, std::int64_t index) : all(all) {
    name = all.at("restype_1to3").at(all.at("restypes").at(index).get<std::string>());
    const json& names = all.at("restype_name_to_atom14_names").at(name);
    for (std::int64_t i = 0; i < atoms; ++i)
      if (const std::string atom = names.at(i); !atom.empty())
        slot[atom] = i;
    for (const json& entry : all.at("rigid_group_atom_positions").at(name)) {
      const std::string atom = entry.at(0);
      group[atom] = entry.at(1);
      position[atom] = entry.at(2);
    }
  }
};

void fillAtoms(AtomTables& made, const Residue& residue, std::int64_t row) {
  const auto types = residue.all.at("atom_types").get<std::vector<std::string>>();
  for (const auto& [atom, slot] : residue.slot) {
    const std::int64_t kind = std::ranges::find(types, atom) - types.begin();
    made.atomGroups[row][slot][residue.group.at(atom)] = 1;
    made.atomPositions[row][slot] = tensorOf(residue.position.at(atom));
    made.atomMask[row][slot] = 1;
    made.atomRadii[row][slot] =
        residue.all.at("van_der_waals_radius").at(atom.substr(0, 1)).get<double>();
    made.atom37[row][slot] = kind;
    made.atom37Mask[row][kind] = 1;
  }
}

/// The frame of a group in the one that it hangs on: origin, x axis and a point of the x-y plane.
void fillFrame(AtomTables& made, std::int64_t row, std::int64_t group, const Tensor& origin,
               const Tensor& axis, const Tensor& side) {
  const Rigid frame = Rigid::fromThreePoints(origin + side, origin, origin + axis);
  made.groupRotations[row][group] = frame.rotation;
  made.groupTranslations[row][group] = origin;
}

void fillGroups(AtomTables& made, const Residue& residue, std::int64_t row) {
  const auto at = [&](const std::string& atom) { return tensorOf(residue.position.at(atom)); };
  const Tensor x = tensorOf({1, 0, 0});
  fillFrame(made, row, 2, at("N"), at("N") - at("CA"), x);
  fillFrame(made, row, 3, at("C"), at("C") - at("CA"), at("CA") - at("N"));
  const json& angles = residue.all.at("chi_angles_atoms").at(residue.name);
  for (std::size_t chi = 0; chi < angles.size(); ++chi) {
    made.chiMask[row][std::int64_t(chi)] = 1;
    const auto names = angles[chi].get<std::vector<std::string>>();
    const Tensor end = at(names[2]);
    if (chi == 0)
      fillFrame(made, row, 4, end, end - at(names[1]), at(names[0]) - at(names[1]));
    else // its position is in the group of the angle before, whose x axis ends in its own origin
      fillFrame(made, row, 4 + std::int64_t(chi), end, end, -x);
  }
}

struct Length {
  double mean, deviation;
};

/// Of the third side of a triangle by two sides and the angle between them, in degrees. Deviations
/// propagate as if independent.
Length thirdSide(const Length& a, const Length& b, double degrees, double degreesDeviation) {
  const double radians = std::numbers::pi / 180, gamma = degrees * radians;
  const double length =
      std::sqrt(a.mean * a.mean + b.mean * b.mean - 2 * a.mean * b.mean * std::cos(gamma));
  const double byGamma = a.mean * b.mean * std::sin(gamma) / length * degreesDeviation * radians;
  const double byA = (a.mean - b.mean * std::cos(gamma)) / length * a.deviation;
  const double byB = (b.mean - a.mean * std::cos(gamma)) / length * b.deviation;
  return {length, std::sqrt(byGamma * byGamma + byA * byA + byB * byB)};
}

/// Mean and deviation of distances between atoms that a bond or an angle holds.
std::map<std::pair<std::int64_t, std::int64_t>, Length> heldPairs(const Residue& residue) {
  std::map<std::pair<std::int64_t, std::int64_t>, Length> held;
  const auto set = [&](const json& a, const json& b, const Length& length) {
    const std::int64_t i = residue.slot.at(a), j = residue.slot.at(b);
    held[{i, j}] = held[{j, i}] = length;
  };
  for (const json& bond : residue.all.at("bonds").at(residue.name))
    set(bond[0], bond[1], {bond[2], bond[3]});
  const auto bonds = held;
  for (const json& angle : residue.all.at("angles").at(residue.name)) {
    const auto slot = [&](int i) { return residue.slot.at(angle[i]); };
    const Length first = bonds.at({slot(0), slot(1)}), second = bonds.at({slot(1), slot(2)});
    set(angle[0], angle[2], thirdSide(first, second, angle[3], angle[4]));
  }
  return held;
}

void fillDistances(AtomTables& made, const Residue& residue, std::int64_t row) {
  constexpr double overlap = 1.5, deviations = 12, unlimited = 1e10;
  const auto held = heldPairs(residue);
  for (const auto& [one, i] : residue.slot)
    for (const auto& [other, j] : residue.slot) {
      if (i == j)
        continue;
      const auto found = held.find({i, j});
      if (found == held.end()) {
        made.lowest[row][i][j] = made.atomRadii[row][i] + made.atomRadii[row][j] - overlap;
        made.highest[row][i][j] = unlimited;
      } else {
        const auto& [mean, deviation] = found->second;
        made.lowest[row][i][j] = mean - deviations * deviation;
        made.highest[row][i][j] = mean + deviations * deviation;
      }
    }
}

AtomTables made() {
  AtomTables made;
  made.groupRotations = at::eye(3, at::kDouble).repeat({residues, groups, 1, 1});
  made.groupTranslations = zeros({residues, groups, 3});
  made.atomGroups = zeros({residues, atoms, groups});
  made.atomPositions = zeros({residues, atoms, 3});
  made.atomMask = zeros({residues, atoms});
  made.atomRadii = zeros({residues, atoms});
  made.atom37 = at::zeros({residues, atoms}, at::kLong);
  made.atom37Mask = zeros({residues, kinds});
  made.chiMask = zeros({residues, 4});
  made.lowest = zeros({residues, atoms, atoms});
  made.highest = zeros({residues, atoms, atoms});
  const json all = json::parse(kiln_chemistry_files[0].text);
  for (std::int64_t row = 0; row < residues - 1; ++row) {
    const Residue residue(all, row);
    fillAtoms(made, residue, row);
    fillGroups(made, residue, row);
    fillDistances(made, residue, row);
  }
  return made;
}

} // namespace

const AtomTables& atomTablesLike(const Tensor& like) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, at::ScalarType>, AtomTables> known;
  const std::lock_guard lock(mutex);
  const auto [entry, isNew] = known.try_emplace({like.device().str(), like.scalar_type()});
  if (isNew) {
    const at::NoGradGuard constant;
    AtomTables& tables = entry->second = made();
    for (Tensor AtomTables::* member :
         {&AtomTables::groupRotations, &AtomTables::groupTranslations, &AtomTables::atomGroups,
          &AtomTables::atomPositions, &AtomTables::atomMask, &AtomTables::atomRadii,
          &AtomTables::atom37Mask, &AtomTables::chiMask, &AtomTables::lowest, &AtomTables::highest})
      tables.*member = (tables.*member).to(like.options());
    tables.atom37 = tables.atom37.to(like.device());
  }
  return entry->second;
}

} // namespace kiln::alphafold
