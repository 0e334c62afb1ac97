// See Predictions.h.
#include "models/alphafold/losses/Predictions.h"

#include "kiln/fuse.h"
#include "models/alphafold/losses/Lddt.h"
#include "models/alphafold/model/AtomTables.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;

namespace {

/// Of logits [..., classes] and int64 targets, over what is masked in.
Tensor crossEntropy(const Tensor& logits, const Tensor& targets, const Tensor& mask, double eps) {
  static const auto lossesOf =
      fuse([](const Expr& logits, const Expr& classes,
              const Expr& weight) { return kiln::crossEntropy(logits, classes) * weight; },
           {.name = "cross_entropies"});
  const Tensor all = lossesOf(logits, targets.unsqueeze(-1), mask.unsqueeze(-1));
  return all.sum() / (mask.sum() + eps);
}

/// How many of `bins` - 1 bounds from `from` to `to` a distance exceeds, by its square.
Tensor binOf(const Tensor& squares, double from, double to, std::int64_t bins) {
  const Tensor bounds = at::linspace(from, to, bins - 1, squares.options()).square();
  return (squares.unsqueeze(-1) > bounds).sum(-1);
}

Tensor pairs(const Tensor& mask) {
  return mask.unsqueeze(1) * mask.unsqueeze(0);
}

/// 1 for a structure that is known well enough.
Tensor isSharp(const Inputs& truth) {
  return ((truth.resolution >= 0.1) * (truth.resolution <= 3.0)).to(truth.seqMask.scalar_type());
}

} // namespace

Tensor distogramLoss(const Tensor& logits, const Inputs& truth) {
  const Tensor apart = truth.pseudoBeta.unsqueeze(1) - truth.pseudoBeta.unsqueeze(0);
  const Tensor targets = binOf(apart.square().sum(-1), 2.3125, 21.6875, logits.size(-1));
  return crossEntropy(logits, targets, pairs(truth.pseudoBetaMask), 1e-6);
}

Tensor maskedMsaLoss(const Tensor& logits, const Inputs& truth) {
  return crossEntropy(logits, truth.trueMsa, truth.bertMask, 1e-8);
}

Tensor lddtLoss(const Tensor& logits, const PredictedStructure& found, const Inputs& truth) {
  const Tensor mask = truth.allAtomMask.select(1, Atom::ca);
  const Tensor score = lddt(found.positions.detach().select(1, Atom::ca),
                            truth.allAtomPositions.select(1, Atom::ca), mask);
  const std::int64_t bins = logits.size(-1);
  const Tensor targets = (score * bins).floor().to(at::kLong).clamp_max(bins - 1);
  return crossEntropy(logits, targets, mask, 1e-10) * isSharp(truth);
}

Tensor resolvedLoss(const Tensor& logits, const Inputs& truth) {
  const Tensor atoms =
      atomTablesLike(logits).atom37Mask.index_select(0, truth.aatype) * truth.seqMask.unsqueeze(-1);
  const Tensor& seen = truth.allAtomMask;
  const Tensor entropy = -(seen * at::log_sigmoid(logits) + (1 - seen) * at::log_sigmoid(-logits));
  return (entropy * atoms).sum() / (atoms.sum() + 1e-8) * isSharp(truth);
}

Tensor alignedErrorLoss(const Tensor& logits, const PredictedStructure& found,
                        const Inputs& truth) {
  const auto seen = [](const Rigid& frames) { // [R, R, 3]: all from each
    return frames.unsqueeze(1).invertApply(frames.translation);
  };
  const Rigid& last = found.backbones.back();
  const Tensor predicted = seen({last.rotation.detach(), last.translation.detach()});
  const Tensor should = seen(Rigid::fromMatrix(truth.rigidgroupsGtFrames.select(1, 0)));
  const Tensor targets = binOf((predicted - should).square().sum(-1), 0, 31, logits.size(-1));
  const Tensor mask = pairs(truth.rigidgroupsGtExists.select(1, 0));
  return crossEntropy(logits, targets, mask, 1e-8) * isSharp(truth);
}

} // namespace kiln::alphafold
