// See Losses.h.
#include "models/alphafold/losses/Losses.h"

#include "models/alphafold/losses/Predictions.h"
#include "models/alphafold/losses/Structure.h"
#include "models/alphafold/losses/Violation.h"
#include "models/common/Fail.h"

#include <ATen/ATen.h>

#include <cmath>

namespace kiln::alphafold {

using at::Tensor;
using models::fail;

LossConfig LossConfig::named(const std::string& stage) {
  LossConfig config;
  if (stage == "initial")
    return config;
  if (stage != "finetune")
    fail(ErrorKind::input, "--stage={}: allowed are initial and finetune", stage);
  config.resolved = 0.01;
  config.violation = 1;
  config.alignedError = 0.1;
  return config;
}

Losses losses(const Outputs& outputs, const Inputs& truth, const LossConfig& config) {
  truth.checkTruth();
  const PredictedStructure& structure = outputs.structure;
  const Predictions& heads = outputs.predictions;
  const FullPrecision exact(structure.positions);
  Losses all;
  Tensor sum;
  const auto add = [&](const char* name, double weight, const Tensor& value) {
    sum = sum.defined() ? sum + weight * value : weight * value;
    all.terms.push_back({name, weight, value.detach()});
  };
  const Renamed names = renamed(structure.positions.detach(), truth);
  add("fape_backbone", 0.5 * config.fape, backboneFape(structure, truth));
  add("fape_sidechain", 0.5 * config.fape, sidechainFape(structure, names, truth));
  add("torsion", config.torsion, torsionLoss(structure, truth));
  add("distogram", config.distogram, distogramLoss(heads.distogram, truth));
  add("masked_msa", config.maskedMsa, maskedMsaLoss(heads.maskedMsa, truth));
  add("plddt", config.lddt, lddtLoss(heads.lddt, structure, truth));
  add("experimentally_resolved", config.resolved, resolvedLoss(heads.resolved, truth));
  if (heads.alignedError.defined())
    add("aligned_error", config.alignedError,
        alignedErrorLoss(heads.alignedError, structure, truth));
  if (config.violation > 0)
    add("violation", config.violation, violations(structure.positions, truth).total());
  all.total = sum * at::sqrt(truth.seqMask.sum());
  return all;
}

Tensor Losses::packed() const {
  std::vector<Tensor> values = {total.detach().to(at::kDouble)};
  for (const Term& term : terms)
    values.push_back(term.value.to(at::kDouble));
  return at::stack(values);
}

Losses Losses::unpacked(const Tensor& values) const {
  Losses found{values[0], terms};
  for (std::size_t i = 0; i < terms.size(); ++i)
    found.terms[i].value = values[std::int64_t(i) + 1];
  return found;
}

std::string Losses::nonFinite() const {
  std::string names;
  for (const Term& term : terms)
    if (const double value = term.value.item<double>(); !std::isfinite(value))
      names += fmt::format("{}{} is {}", names.empty() ? "" : ", ", term.name,
                           std::isnan(value) ? "nan" : fmt::to_string(value)); // of no sign
  return names;
}

} // namespace kiln::alphafold
