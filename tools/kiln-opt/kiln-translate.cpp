// kiln-translate: a module of exit operations, as kiln-prepare leaves it, to CUDA text.
#include "codegen/emit/Cuda.h"
#include "codegen/exit/Exit.h"
#include "codegen/family/Family.h"

#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"
#include "mlir/Tools/mlir-translate/Translation.h"

using namespace kiln;

static llvm::LogicalResult toCuda(mlir::Operation* op, llvm::raw_ostream& out) {
  auto module = llvm::dyn_cast<mlir::ModuleOp>(op);
  if (!module || !module->getAttrOfType<mlir::StringAttr>(cu::kLaunchAttr))
    return op->emitError("has no launch plan ('") << cu::kLaunchAttr << "'); run kiln-lower first";
  return printCuda(module, "printed by kiln-translate", out);
}

int main(int argc, char** argv) {
  mlir::TranslateFromMLIRRegistration cuda(
      "kiln-to-cuda", "print exit operations as CUDA C++", toCuda,
      [](mlir::DialectRegistry& registry) { family::registerDialects(registry); });
  return failed(mlir::mlirTranslateMain(argc, argv, "Prints Kiln's kernels\n"));
}
