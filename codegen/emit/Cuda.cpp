// See Cuda.h.
#include "codegen/emit/Cuda.h"

#include "codegen/exit/Exit.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace kiln {

void printCuda(ModuleOp module, StringRef heading, raw_ostream& out) {
  out << "// " << heading << "\n";
  for (auto kernel : module.getOps<cu::KernelOp>())
    if (kernel.getSchedule())
      out << "// " << kernel.getName() << ": " << *kernel.getSchedule() << "\n";
  out << "// kiln.launch " << module->getAttrOfType<StringAttr>(cu::kLaunchAttr).getValue() << "\n";
  llvm::SetVector<StringRef> headers;
  for (auto kernel : module.getOps<cu::KernelOp>())
    if (headers.insert(kernel.getHeader()))
      out << "#include \"" << kernel.getHeader() << "\"\n";
  out << "using namespace kiln;\n";
  for (auto kernel : module.getOps<cu::KernelOp>()) {
    out << "\n";
    Emitter emitter(out);
    kernel.emit(emitter);
  }
}

} // namespace kiln
