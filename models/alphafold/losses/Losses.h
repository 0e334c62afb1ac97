// The loss of a step: a weighted sum of terms, in fp32, with each term's value beside it.
// Section 1.9 of the supplement; weights of both stages of training.
#pragma once

#include "models/alphafold/model/AlphaFold.h"

#include <string>
#include <vector>

namespace kiln::alphafold {

/// Weights of terms.
struct LossConfig {
  double fape = 1, torsion = 1, distogram = 0.3, maskedMsa = 2, lddt = 0.01;
  double resolved = 0, violation = 0, alignedError = 0;

  /// Of a stage: "initial" or "finetune"; the aligned error counts in the latter if the model has
  /// that head. Throws Error(input) for other names.
  static LossConfig named(const std::string& stage);
};

struct Term {
  std::string name;
  double weight;
  at::Tensor value; // a scalar without gradient, before the weight
};

struct Losses {
  /// Sum of weight * value, times the square root of the number of residues; backward starts here.
  at::Tensor total;
  std::vector<Term> terms;

  /// The total and all values one behind the other, fp64, without gradients; nothing is waited for.
  at::Tensor packed() const;
  /// With values of what packed() gave, on the host.
  Losses unpacked(const at::Tensor& values) const;
  /// Both. Waits for the device once.
  Losses onHost() const { return unpacked(packed().cpu()); }
  /// Names and values of terms that are infinite or no numbers; empty if all are finite. For values
  /// on the host.
  std::string nonFinite() const;
};

/// Of outputs and the inputs of their pass. Terms of heads are computed even with weight 0, so that
/// every parameter has a gradient; violations, which have no parameters, only with a weight. Throws
/// Error(input) for missing truth.
Losses losses(const Outputs& outputs, const Inputs& truth, const LossConfig& config);

} // namespace kiln::alphafold
