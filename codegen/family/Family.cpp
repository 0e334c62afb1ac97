// See Family.h. The families are those that KILN_FAMILIES in the top CMakeLists.txt names: each
// defines its own get().
#include "codegen/family/Family.h"

#include "codegen/backend/Fail.h"
#include "codegen/exit/Exit.h"

#include "llvm/ADT/SetVector.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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
  std::vector<std::string_view> names; // of all
  std::vector<const KernelFamily*> ofKernels;
  std::vector<const FunctionFamily*> ofFunctions;
  std::vector<const ScheduleForm*> forms;

  void add(std::string_view name, const Family& family) {
    all.push_back(&family);
    names.push_back(name);
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
#define KILN_FAMILY(name) made->add(#name, kiln::name::get());
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

/// The one that takes any kernel.
const KernelFamily& usual() {
  return **llvm::find_if(ofKernels(), [](const KernelFamily* family) {
    return family->form() && family->form()->isImplied;
  });
}

const KernelFamily* anchorOf(Operation& op) {
  for (const KernelFamily* family : ofKernels())
    if (family->anchors(&op))
      return family;
  return nullptr;
}

/// The family that made a kernel of a plan. Plans in older stores name none, but the text of a
/// schedule does; null: a kernel without one, which finishes the work of another.
const Family* of(const KernelLaunch& kernel) {
  for (const Family* family : all()) {
    if (kernel.family == nameOf(*family))
      return family;
    const bool isNamed = kernel.family.empty() && family->form() && !family->form()->isImplied;
    if (isNamed &&
        kernel.schedule.starts_with(fmt::format("#kiln.schedule<{},", family->form()->family)))
      return family;
  }
  if (!kernel.family.empty())
    fail(ErrorKind::input, "launch plan: kernel '{}' is of the family '{}'; known are {}",
         kernel.name, kernel.family, fmt::join(Registry::get().names, ", "));
  return kernel.schedule.empty() ? nullptr : &usual();
}

llvm::SetVector<const Family*> familiesOf(const LaunchPlan& plan) {
  llvm::SetVector<const Family*> families;
  for (const KernelLaunch& kernel : plan.kernels)
    if (const Family* family = of(kernel))
      families.insert(family);
  if (families.empty())
    families.insert(&usual());
  return families;
}

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
  for (const KernelFamily* family : ofKernels())
    if (llvm::any_of(kernel.getBody().front(), [&](Operation& op) { return family->anchors(&op); }))
      return *family;
  return usual();
}

const Family& executing(func::FuncOp function, Operation* op) {
  if (const FunctionFamily* whole = ofFunction(function))
    return *whole;
  if (auto kernel = dyn_cast<ir::KernelOp>(op))
    return of(kernel);
  const KernelFamily* anchored = anchorOf(*op);
  return anchored ? *anchored : usual();
}

std::string_view nameOf(const Family& family) {
  const Registry& registry = Registry::get();
  return registry.names[llvm::find(registry.all, &family) - registry.all.begin()];
}

std::vector<Shape> shapesOf(const ShapeRequest& request) {
  llvm::SetVector<const Family*> families;
  for (const KernelLaunch& kernel : request.plan.kernels)
    if (!kernel.multiplyAdds.factors.empty())
      families.insert(of(kernel));
  if (families.empty())
    families = familiesOf(request.plan);
  std::vector<Shape> shapes;
  for (const Family* family : families)
    for (Shape& shape : family->shapes(request))
      if (llvm::none_of(shapes, [&](const Shape& known) { return known.isLike(shape); }))
        shapes.push_back(std::move(shape));
  return shapes;
}

std::vector<std::int64_t> typicalLengthsOf(const LaunchPlan& plan) {
  for (const Family* family : familiesOf(plan))
    if (std::vector<std::int64_t> lengths = family->typicalLengths(); !lengths.empty())
      return lengths;
  return {};
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
