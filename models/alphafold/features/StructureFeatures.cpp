// See StructureFeatures.h.
#include "models/alphafold/features/StructureFeatures.h"

#include "models/alphafold/features/Chemistry.h"
#include "models/alphafold/features/Geometry.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace kiln::alphafold {

namespace {

/// Tables know types to 20; a gap, in templates, has as little as what is unknown.
int tableType(std::int64_t type) {
  return type >= 0 && type < residueTypes ? static_cast<int>(type) : unknownType;
}

/// The atoms of one residue, or of none.
struct Residue {
  const float *positions, *mask;

  bool has(int atom) const { return positions && atom >= 0 && mask[atom] > 0; }
  Point at(int atom) const { return pointOf(positions + std::ptrdiff_t(atom) * 3); }
};

struct AtomOf {
  Residue residue;
  int atom;

  bool isSeen() const { return residue.has(atom); }
  Point place() const { return residue.at(atom); }
};

/// Sine and cosine of the angle that the last of four atoms makes about the axis of the middle two.
std::optional<std::pair<double, double>> torsion(const std::array<AtomOf, 4>& atoms) {
  if (!std::ranges::all_of(atoms, &AtomOf::isSeen))
    return {};
  const Frame frame = Frame::through(atoms[1].place(), atoms[2].place(), atoms[0].place());
  const Point last = frame.local(atoms[3].place());
  const double length = std::sqrt(last[1] * last[1] + last[2] * last[2] + 1e-8);
  return std::pair(last[2] / length, last[1] / length);
}

std::array<std::array<AtomOf, 4>, torsions> torsionAtoms(int type, const Residue& before,
                                                         const Residue& own) {
  const Chemistry& known = chemistry();
  const int n = *known.atomOfName("N"), ca = *known.atomOfName("CA"), c = *known.atomOfName("C"),
            o = *known.atomOfName("O");
  std::array<std::array<AtomOf, 4>, torsions> atoms = {{
      {{{before, ca}, {before, c}, {own, n}, {own, ca}}},
      {{{before, c}, {own, n}, {own, ca}, {own, c}}},
      {{{own, n}, {own, ca}, {own, c}, {own, o}}},
  }};
  for (int chi = 0; chi < 4; ++chi)
    for (int i = 0; i < 4; ++i)
      atoms[3 + chi][i] = {own, known.chiAtoms[type][chi][i]};
  return atoms;
}

std::optional<Frame> groupFrame(int group, const std::array<int, 3>& atoms, const Residue& own) {
  if (!std::ranges::all_of(atoms, [&](int atom) { return own.has(atom); }))
    return {};
  const Frame frame = Frame::through(own.at(atoms[0]), own.at(atoms[1]), own.at(atoms[2]));
  return group == 0 ? frame.turned(0, 2) : frame; // the backbone's x axis runs towards C
}

} // namespace

void makeAtomMaps(FeatureSet& features) {
  const Chemistry& known = chemistry();
  const std::int64_t length = features.aatype.shape[0];
  features.atom14AtomExists = Array<float>({length, denseAtoms});
  features.atom37AtomExists = Array<float>({length, atomTypes});
  features.residxAtom14ToAtom37 = Array<std::int64_t>({length, denseAtoms});
  features.residxAtom37ToAtom14 = Array<std::int64_t>({length, atomTypes});
  for (std::int64_t r = 0; r < length; ++r) {
    const int type = tableType(features.aatype(r));
    for (int i = 0; i < denseAtoms; ++i) {
      features.atom14AtomExists(r, i) = known.atom14To37[type][i] >= 0 ? 1 : 0;
      features.residxAtom14ToAtom37(r, i) = std::max(known.atom14To37[type][i], 0);
    }
    for (int i = 0; i < atomTypes; ++i) {
      features.atom37AtomExists(r, i) = known.hasAtom(type, i) ? 1 : 0;
      features.residxAtom37ToAtom14(r, i) = std::max(known.atom37To14[type][i], 0);
    }
  }
}

void makeAtom14Positions(FeatureSet& features) {
  const Chemistry& known = chemistry();
  const std::int64_t length = features.aatype.shape[0];
  for (auto* positions : {&features.atom14GtPositions, &features.atom14AltGtPositions})
    *positions = Array<float>({length, denseAtoms, 3});
  for (auto* mask :
       {&features.atom14GtExists, &features.atom14AltGtExists, &features.atom14AtomIsAmbiguous})
    *mask = Array<float>({length, denseAtoms});
  for (std::int64_t r = 0; r < length; ++r) {
    const int type = tableType(features.aatype(r));
    for (int i = 0; i < denseAtoms; ++i) {
      const int atom = known.atom14To37[type][i], other = known.exchanged[type][i];
      features.atom14AtomIsAmbiguous(r, i) = other != i ? 1 : 0;
      if (atom < 0 || features.allAtomMask(r, atom) == 0)
        continue;
      const float* place = features.allAtomPositions.at(r, atom);
      features.atom14GtExists(r, i) = features.atom14AltGtExists(r, other) = 1;
      std::copy_n(place, 3, features.atom14GtPositions.at(r, i));
      std::copy_n(place, 3, features.atom14AltGtPositions.at(r, other));
    }
  }
}

void makeRigidGroups(FeatureSet& features) {
  const Chemistry& known = chemistry();
  const std::int64_t length = features.aatype.shape[0];
  for (auto* frames : {&features.rigidgroupsGtFrames, &features.rigidgroupsAltGtFrames})
    *frames = Array<float>({length, rigidGroups, 4, 4});
  for (auto* mask : {&features.rigidgroupsGtExists, &features.rigidgroupsGroupExists,
                     &features.rigidgroupsGroupIsAmbiguous})
    *mask = Array<float>({length, rigidGroups});
  for (std::int64_t r = 0; r < length; ++r) {
    const int type = tableType(features.aatype(r));
    const Residue own{features.allAtomPositions.at(r), features.allAtomMask.at(r)};
    for (int group = 0; group < rigidGroups; ++group) {
      const auto& atoms = known.groupAtoms[type][group];
      const auto frame = groupFrame(group, atoms, own);
      const bool isAmbiguous = known.isGroupAmbiguous[type][group];
      features.rigidgroupsGroupExists(r, group) = atoms[0] >= 0 ? 1 : 0;
      features.rigidgroupsGtExists(r, group) = frame ? 1 : 0;
      features.rigidgroupsGroupIsAmbiguous(r, group) = isAmbiguous ? 1 : 0;
      const Frame base = frame.value_or(Frame());
      base.write(features.rigidgroupsGtFrames.at(r, group));
      (isAmbiguous && frame ? base.turned(1, 2) : base)
          .write(features.rigidgroupsAltGtFrames.at(r, group));
    }
  }
}

void makeBackbone(FeatureSet& features) {
  const std::int64_t length = features.rigidgroupsGtFrames.shape[0];
  features.backboneRigidTensor = Array<float>({length, 4, 4});
  features.backboneRigidMask = Array<float>({length});
  for (std::int64_t r = 0; r < length; ++r) {
    std::copy_n(features.rigidgroupsGtFrames.at(r), 16, features.backboneRigidTensor.at(r));
    features.backboneRigidMask(r) = features.rigidgroupsGtExists(r, 0);
  }
}

Torsions torsionsOf(std::span<const std::int64_t> aatype, const float* positions,
                    const float* mask) {
  const Chemistry& known = chemistry();
  const auto length = std::ssize(aatype);
  Torsions result{Array<float>({length, torsions, 2}), Array<float>({length, torsions, 2}),
                  Array<float>({length, torsions})};
  constexpr int psi = 2, firstChi = 3;
  Residue before{nullptr, nullptr};
  for (std::int64_t r = 0; r < length; ++r) {
    const int type = tableType(aatype[r]);
    const Residue own{positions + r * atomTypes * 3, mask + r * atomTypes};
    const auto atoms = torsionAtoms(type, before, own);
    before = own;
    for (int angle = 0; angle < torsions; ++angle) {
      const auto found = torsion(atoms[angle]);
      if (!found)
        continue;
      const double sign = angle == psi ? -1 : 1;
      const bool isPeriodic = angle >= firstChi && known.isChiPiPeriodic[type][angle - firstChi];
      result.mask(r, angle) = 1;
      float *toOwn = result.sinCos.at(r, angle), *alternative = result.altSinCos.at(r, angle);
      toOwn[0] = float(sign * found->first);
      toOwn[1] = float(sign * found->second);
      for (int i = 0; i < 2; ++i)
        alternative[i] = isPeriodic ? -toOwn[i] : toOwn[i];
    }
  }
  return result;
}

void makeTorsionAngles(FeatureSet& features) {
  Torsions found = torsionsOf(features.aatype.values, features.allAtomPositions.values.data(),
                              features.allAtomMask.values.data());
  const std::int64_t length = found.mask.shape[0];
  features.chiAnglesSinCos = Array<float>({length, 4, 2});
  features.chiMask = Array<float>({length, 4});
  for (std::int64_t r = 0; r < length; ++r) {
    std::copy_n(found.sinCos.at(r, torsions - 4), 8, features.chiAnglesSinCos.at(r));
    std::copy_n(found.mask.at(r, torsions - 4), 4, features.chiMask.at(r));
  }
  features.torsionAnglesSinCos = std::move(found.sinCos);
  features.altTorsionAnglesSinCos = std::move(found.altSinCos);
  features.torsionAnglesMask = std::move(found.mask);
}

void pseudoBetaOf(std::span<const std::int64_t> aatype, const float* positions, const float* mask,
                  float* places, float* seen) {
  const Chemistry& known = chemistry();
  const int ca = *known.atomOfName("CA"), cb = *known.atomOfName("CB");
  const int glycine = *known.typeOfName("GLY");
  for (std::int64_t r = 0; r < std::ssize(aatype); ++r) {
    const std::int64_t atom = r * atomTypes + (aatype[r] == glycine ? ca : cb);
    std::copy_n(positions + atom * 3, 3, places + r * 3);
    seen[r] = mask[atom];
  }
}

void makePseudoBeta(FeatureSet& features) {
  const std::int64_t length = features.aatype.shape[0];
  features.pseudoBeta = Array<float>({length, 3});
  features.pseudoBetaMask = Array<float>({length});
  pseudoBetaOf(features.aatype.values, features.allAtomPositions.values.data(),
               features.allAtomMask.values.data(), features.pseudoBeta.values.data(),
               features.pseudoBetaMask.values.data());
}

void makeTemplateGeometry(FeatureSet& features) {
  const std::int64_t count = features.templateAatype.shape[0],
                     length = features.templateAatype.shape[1];
  features.templatePseudoBeta = Array<float>({count, length, 3});
  features.templatePseudoBetaMask = Array<float>({count, length});
  features.templateTorsionAnglesSinCos = Array<float>({count, length, torsions, 2});
  features.templateAltTorsionAnglesSinCos = Array<float>({count, length, torsions, 2});
  features.templateTorsionAnglesMask = Array<float>({count, length, torsions});
  for (std::int64_t t = 0; t < count; ++t) {
    const std::span aatype(features.templateAatype.at(t), static_cast<std::size_t>(length));
    const float *positions = features.templateAllAtomPositions.at(t),
                *mask = features.templateAllAtomMask.at(t);
    pseudoBetaOf(aatype, positions, mask, features.templatePseudoBeta.at(t),
                 features.templatePseudoBetaMask.at(t));
    const Torsions found = torsionsOf(aatype, positions, mask);
    std::ranges::copy(found.sinCos.values, features.templateTorsionAnglesSinCos.at(t));
    std::ranges::copy(found.altSinCos.values, features.templateAltTorsionAnglesSinCos.at(t));
    std::ranges::copy(found.mask.values, features.templateTorsionAnglesMask.at(t));
  }
}

} // namespace kiln::alphafold
