// What one kernel would store for another is computed again there, if that moves fewer bytes.
#pragma once

#include "codegen/passes/FusionRequests.h"

#include <list>
#include <string>

namespace kiln::passes {

/// Of groups that no merge makes fewer. `reasonAgainst` tells whether a group is one kernel.
void rematerialize(std::list<Group>& groups,
                   llvm::function_ref<std::string(const Group&)> reasonAgainst);

} // namespace kiln::passes
