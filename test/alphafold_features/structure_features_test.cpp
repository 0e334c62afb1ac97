// Frames, torsion angles and layouts of atoms, taken from idealised residues that were put together
// by algorithm 24 in Ideal.h: what was put in must come out.
#include "Helpers.h"
#include "Ideal.h"

#include "models/alphafold/features/StructureFeatures.h"

namespace kiln::alphafold::test {

namespace {

/// Features of residues of every type and of an unknown one, all atoms there.
struct IdealChain {
  std::vector<IdealResidue> residues;
  FeatureSet features;

  explicit IdealChain(std::uint64_t seed) {
    Random random(seed);
    for (int type = 0; type <= unknownType; ++type)
      residues.push_back(randomResidue(type, random));
    const auto length = std::ssize(residues);
    features.aatype = Array<std::int64_t>({length});
    features.allAtomPositions = Array<float>({length, atomTypes, 3});
    features.allAtomMask = Array<float>({length, atomTypes});
    for (std::int64_t r = 0; r < length; ++r) {
      features.aatype(r) = residues[r].type;
      for (int i = 0; i < denseAtoms; ++i)
        if (const int atom = chemistry().atom14To37[residues[r].type][i]; atom >= 0) {
          features.allAtomMask(r, atom) = 1;
          for (int axis = 0; axis < 3; ++axis)
            features.allAtomPositions(r, atom, axis) = float(residues[r].places[i][axis]);
        }
    }
  }

  void hide(std::int64_t residue, const char* atom) {
    const int index = *chemistry().atomOfName(atom);
    features.allAtomMask(residue, index) = 0;
    std::fill_n(features.allAtomPositions.at(residue, index), 3, 0.0F);
  }
};

int typeOf(const char* name) {
  return *chemistry().typeOfName(name);
}

Matrix matrixOf(const float* values) {
  Matrix m{};
  for (int i = 0; i < 16; ++i)
    m[i / 4][i % 4] = values[i];
  return m;
}

void expectRotation(const Matrix& m) {
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) {
      double product = 0;
      for (int k = 0; k < 3; ++k)
        product += m[k][i] * m[k][j];
      EXPECT_NEAR(product, i == j ? 1 : 0, 1e-5);
    }
  const double determinant = m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) -
                             m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0]) +
                             m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0]);
  EXPECT_NEAR(determinant, 1, 1e-5);
  EXPECT_EQ(m[3], (std::array<double, 4>{0, 0, 0, 1}));
}

TEST(RigidGroups, AreTheFramesThatTheAtomsWerePlacedBy) {
  IdealChain chain(1);
  makeRigidGroups(chain.features);
  for (std::int64_t r = 0; r < residueTypes; ++r)
    for (int group = 0; group < rigidGroups; ++group) {
      const bool exists = chemistry().groupAtoms[r][group][0] >= 0;
      EXPECT_EQ(chain.features.rigidgroupsGroupExists(r, group), exists ? 1 : 0);
      EXPECT_EQ(chain.features.rigidgroupsGtExists(r, group), exists ? 1 : 0);
      const Matrix frame = matrixOf(chain.features.rigidgroupsGtFrames.at(r, group));
      expectRotation(frame);
      if (!exists) {
        EXPECT_EQ(frame, identity());
        continue;
      }
      for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 4; ++j) // the published places are rounded to 0.001
          EXPECT_NEAR(frame[i][j], chain.residues[r].frames[group][i][j], 4e-3)
              << chemistry().names[r] << " group " << group;
    }
  for (int group = 0; group < rigidGroups; ++group)
    EXPECT_EQ(chain.features.rigidgroupsGroupExists(unknownType, group), 0);
}

TEST(RigidGroups, GiveTheAtomsBack) {
  IdealChain chain(2);
  makeRigidGroups(chain.features);
  for (std::int64_t r = 0; r < residueTypes; ++r)
    for (int i = 0; i < denseAtoms; ++i)
      if (const int group = chemistry().groupOfAtom[r][i]; group >= 0) {
        const Matrix frame = matrixOf(chain.features.rigidgroupsGtFrames.at(r, group));
        const Vector back = placed(frame, ideal(int(r), chemistry().atom14To37[r][i]));
        for (int axis = 0; axis < 3; ++axis)
          EXPECT_NEAR(back[axis], chain.residues[r].places[i][axis], 0.02)
              << chemistry().names[r] << ' ' << i;
      }
}

/// Frames of the same residue whose symmetric atoms have each other's names.
TEST(RigidGroups, AlternativesAreThoseOfExchangedNames) {
  IdealChain chain(3), exchanged(3);
  const std::pair<const char*, std::pair<const char*, const char*>> swaps[] = {
      {"ASP", {"OD1", "OD2"}}, {"GLU", {"OE1", "OE2"}}, {"PHE", {"CD1", "CD2"}},
      {"PHE", {"CE1", "CE2"}}, {"TYR", {"CD1", "CD2"}}, {"TYR", {"CE1", "CE2"}}};
  for (const auto& [type, atoms] : swaps)
    std::swap_ranges(
        exchanged.features.allAtomPositions.at(typeOf(type), *chemistry().atomOfName(atoms.first)),
        exchanged.features.allAtomPositions.at(typeOf(type), *chemistry().atomOfName(atoms.first)) +
            3,
        exchanged.features.allAtomPositions.at(typeOf(type),
                                               *chemistry().atomOfName(atoms.second)));
  for (FeatureSet* features : {&chain.features, &exchanged.features}) {
    makeRigidGroups(*features);
    makeTorsionAngles(*features);
    makeAtom14Positions(*features);
  }
  const auto& own = chain.features;
  const auto& other = exchanged.features;
  EXPECT_EQ(own.atom14AltGtPositions, other.atom14GtPositions);
  EXPECT_EQ(own.atom14AltGtExists, other.atom14GtExists);
  int ambiguous = 0;
  for (std::int64_t r = 0; r < residueTypes; ++r) {
    for (int group = 0; group < rigidGroups; ++group) {
      ambiguous += own.rigidgroupsGroupIsAmbiguous(r, group) == 1 ? 1 : 0;
      for (int i = 0; i < 16; ++i) // symmetric to 0.02 angstrom only
        EXPECT_NEAR(own.rigidgroupsAltGtFrames.at(r, group)[i],
                    other.rigidgroupsGtFrames.at(r, group)[i], 0.05)
            << chemistry().names[r] << ' ' << group;
    }
    for (int angle = 0; angle < torsions; ++angle)
      for (int i = 0; i < 2; ++i)
        EXPECT_NEAR(own.altTorsionAnglesSinCos(r, angle, i), other.torsionAnglesSinCos(r, angle, i),
                    0.03);
  }
  EXPECT_EQ(ambiguous, 4);
  float atoms = 0;
  for (float one : own.atom14AtomIsAmbiguous.values)
    atoms += one;
  EXPECT_EQ(atoms, 12);
}

TEST(Torsions, AreTheAnglesThatTheAtomsWerePlacedBy) {
  IdealChain chain(4);
  makeTorsionAngles(chain.features);
  for (std::int64_t r = 0; r < residueTypes; ++r) {
    const IdealResidue& residue = chain.residues[r];
    const auto expectAngle = [&](int angle, double value) {
      EXPECT_EQ(chain.features.torsionAnglesMask(r, angle), 1);
      EXPECT_NEAR(chain.features.torsionAnglesSinCos(r, angle, 0), std::sin(value), 4e-3);
      EXPECT_NEAR(chain.features.torsionAnglesSinCos(r, angle, 1), std::cos(value), 4e-3);
    };
    expectAngle(2, residue.psi);
    for (int chi = 0; chi < 4; ++chi)
      if (chemistry().chiAtoms[r][chi][0] >= 0)
        expectAngle(3 + chi, residue.chi[chi]);
      else
        EXPECT_EQ(chain.features.torsionAnglesMask(r, 3 + chi), 0);
    EXPECT_EQ(chain.features.torsionAnglesMask(r, 0), r > 0 ? 1 : 0)
        << "nothing is before the first";
    EXPECT_EQ(chain.features.torsionAnglesMask(r, 1), r > 0 ? 1 : 0);
    for (int i = 0; i < 8; ++i)
      EXPECT_EQ(chain.features.chiAnglesSinCos.at(r)[i],
                chain.features.torsionAnglesSinCos.at(r, 3)[i]);
  }
}

/// The dihedral angle by the textbook's formula of two planes.
double dihedral(const std::array<Vector, 4>& p) {
  const auto crossed = [](const Vector& a, const Vector& b) {
    return Vector{a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
  };
  const auto product = [](const Vector& a, const Vector& b) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  };
  const Vector b1 = minus(p[1], p[0]), b2 = minus(p[2], p[1]), b3 = minus(p[3], p[2]);
  const Vector n1 = crossed(b1, b2), n2 = crossed(b2, b3);
  return std::atan2(std::sqrt(product(b2, b2)) * product(b1, n2), product(n1, n2));
}

TEST(Torsions, OfNeighboursAreDihedralAngles) {
  IdealChain chain(5);
  makeTorsionAngles(chain.features);
  const auto place = [&](std::int64_t r, const char* atom) {
    const float* at = chain.features.allAtomPositions.at(r, *chemistry().atomOfName(atom));
    return Vector{at[0], at[1], at[2]};
  };
  for (std::int64_t r = 1; r < residueTypes; ++r) {
    const double omega =
        dihedral({place(r - 1, "CA"), place(r - 1, "C"), place(r, "N"), place(r, "CA")});
    const double phi = dihedral({place(r - 1, "C"), place(r, "N"), place(r, "CA"), place(r, "C")});
    int angle = 0;
    for (double expected : {omega, phi}) {
      EXPECT_NEAR(chain.features.torsionAnglesSinCos(r, angle, 0), std::sin(expected), 1e-4);
      EXPECT_NEAR(chain.features.torsionAnglesSinCos(r, angle, 1), std::cos(expected), 1e-4);
      ++angle;
    }
  }
}

TEST(Torsions, NeedAllTheirAtoms) {
  IdealChain chain(6);
  const int lysine = typeOf("LYS"), before = lysine - 1;
  chain.hide(lysine, "CD");
  chain.hide(before, "C");
  makeTorsionAngles(chain.features);
  makeRigidGroups(chain.features);
  const float* mask = chain.features.torsionAnglesMask.at(lysine);
  EXPECT_EQ(std::vector(mask, mask + 7), (std::vector<float>{0, 0, 1, 1, 0, 0, 0}));
  EXPECT_EQ(chain.features.torsionAnglesSinCos(lysine, 4, 0), 0);
  EXPECT_EQ(chain.features.torsionAnglesSinCos(lysine, 4, 1), 0);
  const float* groups = chain.features.rigidgroupsGtExists.at(lysine);
  EXPECT_EQ(std::vector(groups, groups + 8), (std::vector<float>{1, 0, 0, 1, 1, 0, 0, 0}));
  EXPECT_EQ(matrixOf(chain.features.rigidgroupsGtFrames.at(lysine, 5)), identity());
  EXPECT_EQ(chain.features.rigidgroupsGtExists(before, 0), 0);
  EXPECT_EQ(chain.features.rigidgroupsGroupExists(before, 0), 1);
}

TEST(Torsions, DoNotChangeWhenTheChainIsMoved) {
  IdealChain chain(7);
  FeatureSet moved = chain.features;
  Random random(8);
  const Matrix frame = randomFrame(random);
  for (std::int64_t i = 0; i < std::ssize(moved.allAtomMask.values); ++i) {
    float* at = moved.allAtomPositions.values.data() + i * 3;
    const Vector to = placed(frame, {at[0], at[1], at[2]});
    if (moved.allAtomMask.values[i] == 1)
      for (int axis = 0; axis < 3; ++axis)
        at[axis] = float(to[axis]);
  }
  makeTorsionAngles(chain.features);
  makeTorsionAngles(moved);
  for (std::size_t i = 0; i < moved.torsionAnglesSinCos.values.size(); ++i)
    EXPECT_NEAR(moved.torsionAnglesSinCos.values[i], chain.features.torsionAnglesSinCos.values[i],
                1e-4);
}

TEST(Atoms, LayoutsAgree) {
  IdealChain chain(9);
  makeAtomMaps(chain.features);
  makeAtom14Positions(chain.features);
  const FeatureSet& f = chain.features;
  // Heavy atoms of the types in the order ARNDCQEGHILKMFPSTWYV, without the terminal oxygen.
  const int heavy[] = {5, 11, 8, 8, 6, 9, 9, 4, 10, 8, 8, 9, 8, 11, 7, 6, 7, 14, 12, 7, 0};
  for (std::int64_t r = 0; r <= unknownType; ++r) {
    EXPECT_EQ(std::count(f.atom14AtomExists.at(r), f.atom14AtomExists.at(r) + denseAtoms, 1.0F),
              heavy[r]);
    EXPECT_EQ(std::count(f.atom37AtomExists.at(r), f.atom37AtomExists.at(r) + atomTypes, 1.0F),
              heavy[r]);
    for (int i = 0; i < denseAtoms; ++i) {
      const auto atom = f.residxAtom14ToAtom37(r, i);
      EXPECT_EQ(f.atom14GtExists(r, i), f.atom14AtomExists(r, i));
      if (f.atom14AtomExists(r, i) == 0) {
        EXPECT_EQ(atom, 0);
        continue;
      }
      EXPECT_EQ(f.residxAtom37ToAtom14(r, atom), i);
      EXPECT_EQ(f.atom37AtomExists(r, atom), 1);
      for (int axis = 0; axis < 3; ++axis)
        EXPECT_EQ(f.atom14GtPositions(r, i, axis), f.allAtomPositions(r, atom, axis));
    }
  }
}

TEST(PseudoBeta, IsCbAndOfGlycineCa) {
  IdealChain chain(10);
  chain.hide(typeOf("ALA"), "CB");
  makePseudoBeta(chain.features);
  for (std::int64_t r = 0; r < residueTypes; ++r) {
    const int atom = *chemistry().atomOfName(r == typeOf("GLY") ? "CA" : "CB");
    for (int axis = 0; axis < 3; ++axis)
      EXPECT_EQ(chain.features.pseudoBeta(r, axis), chain.features.allAtomPositions(r, atom, axis));
    EXPECT_EQ(chain.features.pseudoBetaMask(r), r == typeOf("ALA") ? 0 : 1);
  }
}

TEST(Backbone, IsTheFirstRigidGroup) {
  IdealChain chain(11);
  chain.hide(typeOf("TRP"), "N");
  makeRigidGroups(chain.features);
  makeBackbone(chain.features);
  for (std::int64_t r = 0; r <= unknownType; ++r) {
    EXPECT_EQ(matrixOf(chain.features.backboneRigidTensor.at(r)),
              matrixOf(chain.features.rigidgroupsGtFrames.at(r, 0)));
    EXPECT_EQ(chain.features.backboneRigidMask(r), r == typeOf("TRP") || r == unknownType ? 0 : 1);
  }
}

} // namespace

} // namespace kiln::alphafold::test
