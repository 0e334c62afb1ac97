// Programs of several kernels: workspaces of run-time sizes, their bounds and their poison.
#include "test/host/Harness.h"

#include <cmath>

namespace kiln::test {
namespace {

constexpr const char* programText = R"(#include "row.cuh"
using namespace kiln;

KILN_KERNEL(32, 1) first(const float* x, float* between, i64 rows) {
  const i64 i = block_index() * 32 + thread_index();
  if (i < rows)
    store_global(between + i, load_global<float>(x + i) * 2.0f);
}
KILN_KERNEL(32, 1) second(const float* between, float* y, i64 rows) {
  const i64 i = block_index() * 32 + thread_index();
  if (i < rows)
    store_global(y + i, load_global<float>(between + i) + 1.0f);
}
KILN_KERNEL(32, 1) forgets(const float* x, float* between, i64 rows) {}
KILN_KERNEL(32, 1) exceeds(const float* between, float* y, i64 rows) {
  load_global<float>(between + rows);
}
)";

KernelArgument bufferCalled(const char* name) {
  KernelArgument result;
  result.name = name;
  return result;
}

KernelArgument rows() {
  KernelArgument result;
  result.kind = KernelArgument::Kind::rows;
  result.product = {{{0, 0}}};
  return result;
}

KernelLaunch launch(const char* name, const char* from, const char* to) {
  KernelLaunch result;
  result.name = name;
  result.threads = 32;
  result.promisedBlocks = 1;
  result.rowsPerBlock = 32;
  result.rows = {{{0, 0}}};
  result.arguments = {bufferCalled(from), bufferCalled(to), rows()};
  return result;
}

/// x (rows) -> between (rows) -> y (rows).
LaunchPlan chain(const char* first, const char* second) {
  LaunchPlan plan;
  plan.function = "chain";
  for (auto [list, name] : {std::pair(&plan.inputs, "x"), std::pair(&plan.outputs, "y")}) {
    TensorInfo tensor;
    tensor.name = name;
    tensor.shape = {{0, 0}};
    tensor.strides = {1};
    tensor.alignment = 4;
    list->push_back(tensor);
  }
  plan.workspaces = {{"between", DType::f32, 1, -1, {{{0, 0}}}}};
  plan.kernels = {launch(first, "x", "between"), launch(second, "between", "y")};
  return plan;
}

std::vector<float> run(const LaunchPlan& plan) {
  std::vector<float> x(45, 3.0f), y(45);
  std::vector<Buffer> inputs = {{x.data(), {45}, {}}}, outputs = {{y.data(), {45}, {}}};
  HostProgram(plan, programText).run(inputs, outputs);
  return y;
}

TEST(Program, KernelsPassResultsThroughWorkspaces) {
  EXPECT_EQ(run(chain("first", "second")), std::vector<float>(45, 7.0f));
}

TEST(Program, WorkspacesArePoisoned) {
  for (float value : run(chain("forgets", "second")))
    EXPECT_TRUE(std::isnan(value));
}

TEST(Program, WorkspacesHaveBounds) {
  EXPECT_EQ(errorOf(ErrorKind::verification, [] { run(chain("first", "exceeds")); }),
            "exceeds: block 0 thread 0 reads 4 bytes at between + 180, 'between' has 180 bytes");
}

TEST(Program, EveryKernelOfThePlanMustExist) {
  EXPECT_EQ(errorOf(ErrorKind::input, [] { HostProgram(chain("first", "third"), programText); }),
            "the kernel text has no entry point 'third'; check the launch plan");
}

} // namespace
} // namespace kiln::test
