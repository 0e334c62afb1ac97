// Points and rigid transformations in double precision.
#pragma once

#include <array>
#include <cmath>

namespace kiln::alphafold {

using Point = std::array<double, 3>;

inline Point pointOf(const float* at) {
  return {at[0], at[1], at[2]};
}
inline Point operator-(const Point& a, const Point& b) {
  return {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
}
inline double dot(const Point& a, const Point& b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}
inline Point cross(const Point& a, const Point& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
/// Of length 1; what is no longer than 10^-4 shrinks instead of exploding.
inline Point unit(const Point& a) {
  constexpr double epsilon = 1e-8;
  const double length = std::sqrt(dot(a, a) + epsilon);
  return {a[0] / length, a[1] / length, a[2] / length};
}

/// x -> rotation x + translation; the columns of the rotation are the frame's axes.
struct Frame {
  std::array<Point, 3> axes = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
  Point origin = {0, 0, 0};

  /// Supplement, algorithm 21 (rigidFrom3Points): x from `negativeX` through the origin, `inPlane`
  /// in the xy plane on the side of positive y.
  static Frame through(const Point& negativeX, const Point& origin, const Point& inPlane) {
    const Point x = unit(origin - negativeX), toPlane = inPlane - origin;
    const double along = dot(x, toPlane);
    const Point y =
        unit({toPlane[0] - along * x[0], toPlane[1] - along * x[1], toPlane[2] - along * x[2]});
    return {{x, y, cross(x, y)}, origin};
  }

  /// Global coordinates as the frame sees them.
  Point local(const Point& global) const {
    const Point shifted = global - origin;
    return {dot(axes[0], shifted), dot(axes[1], shifted), dot(axes[2], shifted)};
  }

  /// With two of its axes the other way around: turned by pi about the third.
  Frame turned(int one, int other) const {
    Frame result = *this;
    for (int axis : {one, other})
      for (double& x : result.axes[axis])
        x = -x;
    return result;
  }

  /// Homogeneous, row by row: [4, 4].
  void write(float* to) const {
    for (int row = 0; row < 3; ++row) {
      for (int column = 0; column < 3; ++column)
        to[row * 4 + column] = float(axes[column][row]);
      to[row * 4 + 3] = float(origin[row]);
      to[12 + row] = 0;
    }
    to[15] = 1;
  }
};

} // namespace kiln::alphafold
