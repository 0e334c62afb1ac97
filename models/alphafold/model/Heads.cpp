// See Heads.h.
#include "models/alphafold/model/Heads.h"

#include <ATen/ATen.h>

namespace kiln::alphafold {

using at::Tensor;

LinearHeadImpl::LinearHeadImpl(std::int64_t in, std::int64_t out)
    : linear(register_module("linear", Linear(in, out, Init::zero))) {}

Tensor LinearHeadImpl::forward(const Tensor& x) {
  return linear(full(x));
}

LddtHeadImpl::LddtHeadImpl(const ModelConfig& config)
    : norm(register_module("layer_norm", LayerNorm(config.single))),
      first(register_module("linear_1", Linear(config.single, config.lddtHidden, Init::he))),
      second(register_module("linear_2", Linear(config.lddtHidden, config.lddtHidden, Init::he))),
      third(register_module("linear_3", Linear(config.lddtHidden, config.lddtBins, Init::zero))) {}

Tensor LddtHeadImpl::forward(const Tensor& s) {
  return third(at::relu(second(at::relu(first(norm(full(s)))))));
}

HeadsImpl::HeadsImpl(const ModelConfig& config)
    : lddt(register_module("plddt", LddtHead(config))),
      distogram(register_module("distogram", LinearHead(config.pair, config.distogramBins))),
      maskedMsa(register_module("masked_msa", LinearHead(config.msa, config.msaClasses))),
      resolved(register_module("experimentally_resolved", LinearHead(config.single, 37))) {
  if (config.alignedError)
    alignedError = register_module("tm", LinearHead(config.pair, config.alignedErrorBins));
}

Predictions HeadsImpl::forward(const HeadInputs& in) {
  const FullPrecision exact(in.z);
  Predictions found;
  found.lddt = lddt(in.structure);
  const Tensor half = distogram(in.z);
  found.distogram = half + half.transpose(0, 1);
  found.maskedMsa = maskedMsa(in.m);
  found.resolved = resolved(in.s);
  if (alignedError)
    found.alignedError = alignedError(in.z);
  return found;
}

Tensor lddtOf(const Tensor& logits) {
  const std::int64_t bins = logits.size(-1);
  const Tensor centers = (at::arange(bins, logits.options()) + 0.5) * (100.0 / double(bins));
  return (at::softmax(logits, -1) * centers).sum(-1);
}

} // namespace kiln::alphafold
