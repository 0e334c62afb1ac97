// The state of a ShardedOptimizer as named tensors, whole or in parts, and back, whatever the
// numbers of ranks.
#pragma once

#include "kiln/optim.h"
#include "runtime/dist/Pieces.h"

namespace kiln::dist {

std::vector<NamedParameter> partialState(optim::AdamW& inner, std::vector<FlatWeights>& weights);
/// On rank 0; all ranks must ask.
std::vector<NamedParameter> wholeState(optim::AdamW& inner, std::vector<FlatWeights>& weights,
                                       DataParallel::Impl& reducer);

/// Throws Error(input) for what does not fit the parameters.
void checkState(const std::vector<NamedParameter>& state, const DataParallel::Impl& reducer);
/// Throws Error(input) if elements of a piece are missing.
void restorePieces(optim::AdamW& inner, const std::vector<Piece*>& pieces,
                   const std::vector<NamedParameter>& state);

} // namespace kiln::dist
