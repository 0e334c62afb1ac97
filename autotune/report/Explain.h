// What the layers know of one key; the public cache::explain() and Tuner::explain() stand on it.
#pragma once

#include "autotune/Key.h"
#include "autotune/store/Layers.h"
#include "kiln/cache.h"

namespace kiln::cache {

/// `task`: if the caller has it; else what the store kept of it. `described`: for choices of near
/// sizes; null: none is looked for.
Explanation explainKey(const autotune::Layers& layers, const autotune::Key& key, std::string label,
                       std::optional<autotune::Task> task, const autotune::Described* described);

} // namespace kiln::cache
