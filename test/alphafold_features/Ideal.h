// Residues of idealised geometry, placed by a backbone frame and torsion angles as algorithm 24 of
// the supplement says: written for tests, apart from the code that takes such residues apart.
#pragma once

#include "models/alphafold/features/Chemistry.h"
#include "models/common/Random.h"

#include <array>
#include <cmath>
#include <numbers>

namespace kiln::alphafold::test {

using Vector = std::array<double, 3>;
using Matrix = std::array<std::array<double, 4>, 4>; // homogeneous

inline Matrix identity() {
  return {{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}}};
}

inline Matrix multiply(const Matrix& a, const Matrix& b) {
  Matrix c{};
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j)
      for (int k = 0; k < 4; ++k)
        c[i][j] += a[i][k] * b[k][j];
  return c;
}

inline Vector placed(const Matrix& a, const Vector& x) {
  Vector y{};
  for (int i = 0; i < 3; ++i)
    y[i] = a[i][0] * x[0] + a[i][1] * x[1] + a[i][2] * x[2] + a[i][3];
  return y;
}

/// Algorithm 25: a turn about x.
inline Matrix aboutX(double angle) {
  const double s = std::sin(angle), c = std::cos(angle);
  return {{{1, 0, 0, 0}, {0, c, -s, 0}, {0, s, c, 0}, {0, 0, 0, 1}}};
}

/// Axes from a direction for x and one for the xy plane, by Gram and Schmidt.
inline Matrix axes(Vector ex, Vector ey, const Vector& origin) {
  const auto norm = [](Vector& v) {
    const double length = std::sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    for (double& x : v)
      x /= length;
  };
  norm(ex);
  const double along = ex[0] * ey[0] + ex[1] * ey[1] + ex[2] * ey[2];
  for (int i = 0; i < 3; ++i)
    ey[i] -= along * ex[i];
  norm(ey);
  const Vector ez = {ex[1] * ey[2] - ex[2] * ey[1], ex[2] * ey[0] - ex[0] * ey[2],
                     ex[0] * ey[1] - ex[1] * ey[0]};
  Matrix m = identity();
  for (int i = 0; i < 3; ++i)
    m[i] = {ex[i], ey[i], ez[i], origin[i]};
  return m;
}

inline Vector minus(const Vector& a, const Vector& b) {
  return {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
}

/// Where an atom of the 37 stands in the idealised residue's own group.
inline Vector ideal(int type, int atom) {
  const auto& place = chemistry().placeInGroup[type][chemistry().atom37To14[type][atom]];
  return {place[0], place[1], place[2]};
}

struct IdealResidue {
  int type = 0;
  std::array<Matrix, rigidGroups> frames = {}; // global
  std::array<double, 4> chi = {};
  double psi = 0;
  std::array<Vector, denseAtoms> places = {};

  /// Algorithm 24 with table 2's frames between groups.
  IdealResidue(int type, const Matrix& backbone, double psi, const std::array<double, 4>& chi)
      : type(type), chi(chi), psi(psi) {
    const Chemistry& known = chemistry();
    const int n = *known.atomOfName("N"), ca = *known.atomOfName("CA"), c = *known.atomOfName("C");
    frames.fill(backbone);
    if (type == unknownType)
      return; // which has no atoms
    const Matrix toPsi = axes(minus(ideal(type, c), ideal(type, ca)),
                              minus(ideal(type, ca), ideal(type, n)), ideal(type, c));
    frames[3] = multiply(multiply(backbone, toPsi), aboutX(psi));
    for (int i = 0; i < 4; ++i) {
      const auto& atoms = known.chiAtoms[type][i];
      if (atoms[0] < 0)
        continue;
      const Matrix toChi =
          i == 0 ? axes(minus(ideal(type, atoms[2]), ideal(type, atoms[1])),
                        minus(ideal(type, atoms[0]), ideal(type, atoms[1])), ideal(type, atoms[2]))
                 : axes(ideal(type, atoms[2]), {-1, 0, 0}, ideal(type, atoms[2]));
      frames[4 + i] = multiply(multiply(i == 0 ? backbone : frames[3 + i], toChi), aboutX(chi[i]));
    }
    for (int i = 0; i < denseAtoms; ++i)
      if (const int group = known.groupOfAtom[type][i]; group >= 0)
        places[i] = placed(frames[group], ideal(type, known.atom14To37[type][i]));
  }
};

inline double randomAngle(models::Random& random) {
  return (2 * random.uniform() - 1) * std::numbers::pi;
}

/// Any orientation, near the origin.
inline Matrix randomFrame(models::Random& random) {
  const auto vector = [&] {
    Vector v{};
    for (double& x : v)
      x = random.uniform() - 0.5;
    return v;
  };
  const Vector ex = vector(), ey = vector();
  Vector origin = vector();
  for (double& x : origin)
    x *= 40;
  return axes(ex, ey, origin);
}

inline IdealResidue randomResidue(int type, models::Random& random) {
  const Matrix frame = randomFrame(random);
  const double psi = randomAngle(random);
  std::array<double, 4> chi{};
  for (double& angle : chi)
    angle = randomAngle(random);
  return {type, frame, psi, chi};
}

} // namespace kiln::alphafold::test
