// What a long function begins with before kiln-fuse merges: runs of neighbouring elementwise
// operations instead of single ones. Each merge looks at all groups that there are, so with a
// bounded number of groups the time grows with the length of the function, not with its square.
#pragma once

#include "codegen/passes/FusionRequests.h"

#include <list>
#include <string>

namespace kiln::passes {

/// Leaves a function of up to 256 groups as it is. `reasonAgainst` tells whether a run may be a
/// kernel; one that may not is halved.
void beginWithRuns(mlir::Block& block, std::list<Group>& groups,
                   llvm::function_ref<std::string(const Group&)> reasonAgainst);

} // namespace kiln::passes
