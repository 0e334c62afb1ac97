// The passes under their names, for kiln-opt.
#include "codegen/passes/Passes.h"

namespace kiln::passes {

#define GEN_PASS_REGISTRATION
#include "codegen/passes/Passes.h.inc"

void registerPasses() {
  registerKilnPasses();
}

} // namespace kiln::passes
