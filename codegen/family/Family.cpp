// See Family.h. The families are those that KILN_FAMILIES in the top CMakeLists.txt names: each
// defines its own get().
#include "codegen/family/Family.h"

#include "codegen/exit/Exit.h"

using namespace mlir;

#define KILN_FAMILY(name)                                                                          \
  namespace kiln::name {                                                                           \
  const kiln::family::Family& get();                                                               \
  }
#include "codegen/family/Families.inc"
#undef KILN_FAMILY

namespace kiln::family {
namespace {

struct Registry {
  std::vector<const Family*> all;
  std::vector<const KernelFamily*> ofKernels;
  std::vector<const FunctionFamily*> ofFunctions;
  std::vector<const ScheduleForm*> forms;

  void add(const Family& family) {
    all.push_back(&family);
    if (const auto* kernels = dynamic_cast<const KernelFamily*>(&family))
      ofKernels.push_back(kernels);
    if (const auto* functions = dynamic_cast<const FunctionFamily*>(&family))
      ofFunctions.push_back(functions);
    if (family.form())
      forms.push_back(family.form());
  }

  static const Registry& get() {
    static const Registry* registry = [] { // never destroyed: threads may outlive main
      auto* made = new Registry;
#define KILN_FAMILY(name) made->add(kiln::name::get());
#include "codegen/family/Families.inc"
#undef KILN_FAMILY
      return made;
    }();
    return *registry;
  }
};

class Forms : public ir::ScheduleForms {
 public:
  explicit Forms(Dialect* dialect) : ScheduleForms(dialect) {}
  ArrayRef<const ScheduleForm*> all() const override { return Registry::get().forms; }
};

} // namespace

ArrayRef<const Family*> all() {
  return Registry::get().all;
}

ArrayRef<const KernelFamily*> ofKernels() {
  return Registry::get().ofKernels;
}

const FunctionFamily* ofFunction(func::FuncOp function) {
  for (const FunctionFamily* family : Registry::get().ofFunctions)
    if (family->takes(function))
      return family;
  return nullptr;
}

const KernelFamily& of(ir::KernelOp kernel) {
  const KernelFamily* usual = nullptr;
  for (const KernelFamily* family : ofKernels()) {
    if (llvm::any_of(kernel.getBody().front(), [&](Operation& op) { return family->anchors(&op); }))
      return *family;
    if (family->form() && family->form()->isImplied)
      usual = family;
  }
  return *usual;
}

std::string KernelFamily::reasonAgainst(const Considered& considered,
                                        const std::optional<FusionLimits>&) const {
  Refusal refusal;
  return analyze(considered.kernel, refusal) ? "" : refusal.reason;
}

bool SizeClasses::Less::operator()(const Dimension& a, const Dimension& b) const {
  return std::make_pair(a.first.getAsOpaquePointer(), a.second) <
         std::make_pair(b.first.getAsOpaquePointer(), b.second);
}

Dimension SizeClasses::find(Dimension d) const {
  for (auto found = parent.find(d); found != parent.end(); found = parent.find(d))
    d = found->second;
  return d;
}

void SizeClasses::unite(Dimension a, Dimension b) {
  a = find(a), b = find(b);
  if (a != b)
    parent[a] = b;
}

void registerDialects(DialectRegistry& registry) {
  ir::registerDialects(registry);
  registry.insert<cu::CuDialect>();
  registry.addExtension(
      +[](MLIRContext*, ir::KilnDialect* dialect) { dialect->addInterfaces<Forms>(); });
}

} // namespace kiln::family
