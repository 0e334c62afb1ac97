// How ranks meet and what carries their tensors: c10d's stores and backends behind two functions
// each, so that few units see c10d's headers.
#pragma once

#include "kiln/dist/group.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace kiln::dist {

using StorePtr = c10::intrusive_ptr<c10d::Store>;
using BackendPtr = c10::intrusive_ptr<c10d::Backend>;

/// Once all ranks have come. Throws Error(unavailable) with those that have not.
StorePtr meet(const Place& place, const GroupOptions& options);

BackendPtr glooOf(const StorePtr& store, const Place& place, const GroupOptions& options);
/// Throws Error(unavailable) if this LibTorch has none.
BackendPtr ncclOf(const StorePtr& store, const Place& place, const GroupOptions& options);
/// Whether the first `count` GPUs that this process sees can write to each other's memory.
bool gpusReachEachOther(int count);
/// Whether what the current stream gets goes into a graph.
bool isCapturing(at::Device device);

} // namespace kiln::dist
