// See Cuda.h.
#include "codegen/emit/Cuda.h"

#include "codegen/backend/LaunchPlan.h"
#include "codegen/emit/Outlines.h"
#include "codegen/exit/Exit.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace kiln {

LogicalResult printCuda(ModuleOp module, StringRef heading, raw_ostream& out) {
  for (auto kernel : module.getOps<cu::KernelOp>())
    if (failed(cu::havePlaces(kernel)))
      return failure();
  out << commentLine(heading);
  for (auto kernel : module.getOps<cu::KernelOp>())
    if (kernel.getSchedule())
      out << "// " << kernel.getName() << ": " << *kernel.getSchedule() << "\n";
  // Read and written anew: an edited text may be JSON of several lines.
  StringRef launch = module->getAttrOfType<StringAttr>(cu::kLaunchAttr).getValue();
  out << "// kiln.launch " << toJson(parseLaunchPlan({launch.data(), launch.size()})) << "\n";
  llvm::SetVector<StringRef> headers;
  for (auto kernel : module.getOps<cu::KernelOp>())
    if (headers.insert(kernel.getHeader()))
      out << "#include \"" << kernel.getHeader() << "\"\n";
  out << "using namespace kiln;\n";
  const Outlines outlines(module);
  outlines.print(out);
  for (auto kernel : module.getOps<cu::KernelOp>()) {
    out << "\n";
    Emitter emitter(out, outlines);
    kernel.emit(emitter);
  }
  return success();
}

} // namespace kiln
