// Rotations and translations of space: the frames of residues and of their rigid groups. All is
// written out elementwise in the dtype of its operands, never as a matrix product: TF32 or bf16
// would cost tenths of an angstrom.
#pragma once

#include <ATen/core/Tensor.h>

namespace kiln::alphafold {

/// x -> rotation x + translation, with any leading dimensions, which broadcast.
struct Rigid {
  at::Tensor rotation;    // [..., 3, 3]
  at::Tensor translation; // [..., 3]

  /// Of `sizes`, with dtype and device of `like`.
  static Rigid identity(at::IntArrayRef sizes, const at::Tensor& like);
  /// Algorithm 21: origin b, first axis from b to c, second in the plane with a; points [..., 3].
  static Rigid fromThreePoints(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c);
  /// From [..., 4, 4] matrices, and back.
  static Rigid fromMatrix(const at::Tensor& matrix);
  at::Tensor matrix() const;
  /// Algorithm 23: the quaternion (1, b, c, d), normalised, and a translation; [..., 6].
  static Rigid fromUpdate(const at::Tensor& update);
  /// compose(fromUpdate(update)).
  Rigid updated(const at::Tensor& update) const;
  /// Algorithm 25: a turn about x by angles given as (sine, cosine); [..., 2].
  static Rigid turnAboutX(const at::Tensor& sinCos);

  /// Of points [..., 3].
  at::Tensor apply(const at::Tensor& points) const;
  at::Tensor invertApply(const at::Tensor& points) const;
  /// First `inner`, then this.
  Rigid compose(const Rigid& inner) const;

  /// The same space in units 1/factor as large.
  Rigid scaled(double factor) const;
  Rigid detachedRotation() const;
  /// Index or new dimension among the leading ones; `dim` counts from the front.
  Rigid select(std::int64_t dim, std::int64_t index) const;
  Rigid unsqueeze(std::int64_t dim) const;
  Rigid flattened() const; // all leading dimensions to one
};

/// [..., 3] points scaled to length 1, by 1 / sqrt(sum of squares + eps).
at::Tensor normalized(const at::Tensor& vectors, double eps = 1e-20);

/// Along a new dimension in front.
Rigid stack(const std::vector<Rigid>& all);

} // namespace kiln::alphafold
