// Points and frames in fused functions, whose operands are tensors of one coordinate each: of what
// is computed of pairs of them nothing lies in memory.
#pragma once

#include "kiln/fuse.h"
#include "models/alphafold/model/Rigid.h"

#include <array>
#include <optional>

namespace kiln::alphafold {

/// Coordinates in a function.
using PointExpr = std::array<Expr, 3>;

PointExpr operator-(const PointExpr& a, const PointExpr& b);
Expr squaredLength(const PointExpr& point);
Expr distance(const PointExpr& a, const PointExpr& b); // with a gradient where they are one

struct FrameExpr {
  std::array<Expr, 9> rotation; // row by row
  PointExpr translation;

  /// Algorithm 23: a quaternion (1, b, c, d), normalised, and a translation.
  static FrameExpr fromUpdate(const PointExpr& bcd, const PointExpr& translation);
  PointExpr apply(const PointExpr& point) const;
  PointExpr invertApply(const PointExpr& point) const;
  FrameExpr compose(const FrameExpr& inner) const; // first `inner`, then this
};

/// The operands of a function, one after another.
class Operands {
 public:
  explicit Operands(const std::vector<Expr>& all) : next(all.begin()) {}
  Expr number() { return *next++; }
  PointExpr point();
  FrameExpr frame();
  /// Of what addPairs() gave.
  Expr distanceOfPair();

 private:
  std::vector<Expr>::const_iterator next;
};

/// The tensors that a function is called with, in the same order. Elements are [..., F, P] or
/// [..., F].
class Arguments {
 public:
  void add(at::Tensor one) { tensors.push_back(std::move(one)); }
  /// Of vectors [..., F, n] and frames [..., F]: n or 12 numbers an element.
  void addPlanes(const at::Tensor& vectors) { addPlanes(vectors, std::nullopt); }
  void add(const Rigid& frames) { add(frames, std::nullopt); }
  /// One a row, for all P columns.
  void addRows(const at::Tensor& points) { addPlanes(points, -1); }
  void addRows(const Rigid& frames) { add(frames, -1); }
  /// [..., P, 3]: one a column, for all F rows.
  void addColumns(const at::Tensor& points) { addPlanes(points, -2); }

  /// [P, 3]: one a row and one a column.
  void addPairs(const at::Tensor& points) {
    addRows(points);
    addColumns(points);
  }

  std::vector<at::Tensor> call(const FusedFunction& function) const;

 private:
  void add(const Rigid& frames, std::optional<std::int64_t> shared);
  void addPlanes(const at::Tensor& vectors, std::optional<std::int64_t> shared);

  std::vector<at::Tensor> tensors;
};

} // namespace kiln::alphafold
