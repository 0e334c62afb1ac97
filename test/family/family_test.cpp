// One more family, added by one folder and one word (CMakeLists.txt): what passes, texts and the
// cost model make of its kernels beside those of the others.
#include "codegen/emit/Cuda.h"
#include "codegen/model/KernelModel.h"
#include "codegen/passes/FunctionPlan.h"
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
  EXPECT_EQ(family::all().size(), 4U);
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
  printCuda(*module, "a test", out);
  EXPECT_TRUE(has(cuda, "#kiln.schedule<another, speed = 3>")) << cuda;
  EXPECT_TRUE(has(cuda, "KILN_KERNEL(32, 1)")) << cuda;
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
