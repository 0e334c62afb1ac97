// The state of a ShardedOptimizer as named tensors, whole or in parts, and back, whatever the
// numbers of ranks.
#pragma once

#include "runtime/dist/Pieces.h"

namespace kiln::dist {

/// Pieces know who updates them.
std::vector<NamedParameter> partialState(const std::vector<FlatWeights*>& weights);
/// On rank 0; all ranks must ask.
std::vector<NamedParameter> wholeState(const std::vector<FlatWeights*>& weights,
                                       DataParallel::Impl& reducer);

/// Throws Error(input) for what does not fit the parameters.
void checkState(const std::vector<NamedParameter>& state, const DataParallel::Impl& reducer);
/// Throws Error(input) if elements of a piece are missing.
void restorePieces(const std::vector<Piece*>& pieces, const std::vector<NamedParameter>& state);

} // namespace kiln::dist
