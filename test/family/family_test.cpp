// One more family, added by one folder and one word (CMakeLists.txt): what passes, texts and the
// cost model make of its kernels beside those of the others.
#include "codegen/emit/Cuda.h"
#include "codegen/model/KernelModel.h"
#include "codegen/passes/FunctionPlan.h"
#include "codegen/program/Compare.h"
#include "test/unit/Context.h"

#include <gtest/gtest.h>

using namespace kiln;
using namespace kiln::test;

namespace {

// Without its anchor the second operation would join the first.
constexpr const char* kText = R"(
func.func @f(%x: tensor<?x8xf32>, %z: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %a = arith.addf %x, %x : tensor<?x8xf32>
  %b = arith.mulf %a, %z {test.another} : tensor<?x8xf32>
  %c = arith.subf %b, %x : tensor<?x8xf32>
  return %c : tensor<?x8xf32>
})";

class AnotherFamily : public testing::Test {
 protected:
  std::string textOf(mlir::ModuleOp module) {
    std::string text;
    llvm::raw_string_ostream(text) << module;
    return text;
  }
  bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  Context context;
};

TEST_F(AnotherFamily, IsRegisteredBesideTheOthers) {
  EXPECT_EQ(family::all().size(), 5U);
  EXPECT_TRUE(
      context.parse("func.func private @f() attributes {a = #kiln.schedule<another, speed = 9>}"));
  mlir::ScopedDiagnosticHandler quiet(&context.context,
                                      [](mlir::Diagnostic&) { return mlir::success(); });
  EXPECT_FALSE(mlir::parseSourceString<mlir::ModuleOp>(
      "func.func private @f() attributes {a = #kiln.schedule<another, speed = 10>}",
      &context.context));
}

TEST_F(AnotherFamily, ItsAnchorsAreKernelsOfTheirOwn) {
  auto module = context.parse(kText);
  ASSERT_TRUE(context.run(*module, passes::createFuse()));
  auto function = *module->getOps<mlir::func::FuncOp>().begin();
  EXPECT_EQ(llvm::range_size(function.getOps<ir::KernelOp>()), 3) << textOf(*module);
}

TEST_F(AnotherFamily, ItsKernelsAreScheduledVerifiedAndPrinted) {
  auto module = context.parse(kText);
  ASSERT_TRUE(context.run(*module, passes::createFuse()));
  ASSERT_TRUE(context.run(*module, passes::createSchedule()));
  EXPECT_TRUE(has(textOf(*module), "schedule(<another, speed = 3>)")) << textOf(*module);
  ASSERT_TRUE(context.run(*module, passes::createVerifySchedule()));
  ASSERT_TRUE(context.run(*module, passes::createLower()));
  ASSERT_TRUE(context.run(*module, passes::createPlace()));
  ASSERT_TRUE(context.run(*module, passes::createPrepare()));
  std::string cuda;
  llvm::raw_string_ostream out(cuda);
  ASSERT_TRUE(succeeded(printCuda(*module, "a test", out)));
  EXPECT_TRUE(has(cuda, "#kiln.schedule<another, speed = 3>")) << cuda;
  EXPECT_TRUE(has(cuda, "KILN_KERNEL(32, 1)")) << cuda;
}

/// The launch plan says which family made each kernel: it is verified at the shapes of all.
TEST_F(AnotherFamily, IsVerifiedAtItsShapesBesideThoseOfTheOthers) {
  auto module = context.parse(kText);
  ASSERT_TRUE(context.run(*module, passes::createFuse()));
  ASSERT_TRUE(context.run(*module, passes::createSchedule()));
  ASSERT_TRUE(context.run(*module, passes::createLower()));
  const auto text = (*module)->getAttrOfType<mlir::StringAttr>(passes::kLaunchAttr);
  const LaunchPlan plan = parseLaunchPlan(text.getValue().str());
  std::vector<std::string> families, shapes;
  for (const KernelLaunch& kernel : plan.kernels)
    families.push_back(kernel.family);
  EXPECT_EQ(families, (std::vector<std::string>{"rows", "another", "rows"}));
  for (const family::Shape& shape : family::shapesOf({plan, {4096}, 1 << 20}))
    shapes.push_back(shape.name);
  EXPECT_EQ(shapes, (std::vector<std::string>{"its sizes", "tail 997", "tail 997, least aligned",
                                              "twice as many"}));
  EXPECT_EQ(family::typicalLengthsOf(plan), (std::vector<std::int64_t>{1024}));
}

/// What the family rounds to bf16 may be off by as much, though all types in the text are fp32.
TEST_F(AnotherFamily, IsAllowedWhatItsArithmeticRounds) {
  const std::string marked = " {test.another}";
  std::string plain = kText;
  plain.erase(plain.find(marked), marked.size());
  const auto allowed = [](const std::string& text) {
    std::vector<ir::Tensor64> inputs(2, ir::makeTensor64({16, 8}));
    for (ir::Tensor64& input : inputs)
      for (double& value : input.data)
        value = 1.0 + 0.1 * static_cast<double>(&value - input.data.data());
    const std::vector<TensorInfo> outputs(1); // fp32
    return program::expect(Module::parse(text), "f", inputs, outputs).allowed[0].data;
  };
  const auto ofAnother = allowed(kText), ofRows = allowed(plain);
  for (std::size_t i = 0; i < ofRows.size(); ++i)
    EXPECT_GT(ofAnother[i], 1000 * ofRows[i]);
}

/// Plans in stores that were made before name no family.
TEST(FamilyOfAPlan, IsItsSchedulesWhereItNamesNone) {
  LaunchPlan plan;
  plan.kernels.resize(1);
  const auto nameOfFirst = [&] { return family::shapesOf({plan, {64}, 1 << 20}).front().name; };
  EXPECT_EQ(nameOfFirst(), "its sizes");
  plan.kernels[0].schedule = "#kiln.schedule<another, speed = 3>";
  EXPECT_EQ(nameOfFirst(), "twice as many");
  plan.kernels.resize(2); // one that finishes its work
  EXPECT_EQ(family::shapesOf({plan, {64}, 1 << 20}).size(), 1U);
  plan.kernels[0].family = "rows";
  EXPECT_EQ(nameOfFirst(), "its sizes");
  plan.kernels[0].family = "nobody's";
  EXPECT_THROW(nameOfFirst(), Error);
}

TEST_F(AnotherFamily, SpillsAndRefusalsAreItsOwn) {
  auto module = context.parse(kText);
  ASSERT_TRUE(context.run(*module, passes::createFuse()));
  auto function = *module->getOps<mlir::func::FuncOp>().begin();
  auto plan = passes::planFunction(function);
  ASSERT_TRUE(succeeded(plan));
  const Target& target = findTarget("sm_90a");
  for (const std::unique_ptr<family::Kernel>& kernel : (*plan)->kernels) {
    if (kernel->form()->family != "another")
      continue;
    const auto model = kernel->model({});
    EXPECT_EQ(model->space(target).feasible.size(), 3U);
    model->noteSpill(16);
    const model::Space space = model->space(target);
    EXPECT_EQ(space.feasible.size(), 2U);
    EXPECT_EQ(space.refused.at("speed").worst, "speed = 1, more than 1 is needed");
  }
}

} // namespace
