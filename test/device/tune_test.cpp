// The tuner on a real GPU: kernels that break, made by editing CUDA text, each end as a row of its
// kind; two copies of one kernel come out the same. Candidates run in worker processes
// (kernel-compile worker). Skips and says what is missing where there is no GPU.
#include "autotune/measure/GpuDevice.h"
#include "autotune/search/Statistics.h"
#include "codegen/backend/Driver.h"
#include "codegen/backend/Libraries.h"
#include "test/backend/DeviceText.h"
#include "test/tune/Problems.h"

#include <gtest/gtest.h>

#include <cstdio>

using namespace kiln;
using namespace kiln::autotune;

namespace {

constexpr std::string_view kGate = R"(
func.func @gate(%x: tensor<?x128xf32>, %g: tensor<?x128xf32>) -> tensor<?x128xf32> {
  %y = arith.mulf %x, %g : tensor<?x128xf32>
  return %y : tensor<?x128xf32>
})";
constexpr std::int64_t kRows = 4096;

/// What is put behind the last statement of the kernel, and what must come of it.
struct Fault {
  FailureKind kind;
  const char* statement;
};
constexpr Fault kFaults[] = {
    {FailureKind::illegalAccess, "if (threadIdx.x == 0) y[row_count * 128 + (1ll << 38)] = 0.0f;"},
    {FailureKind::wroteOutside,
     "if (blockIdx.x == 0 && threadIdx.x == 0) y[row_count * 128 + 3] = 0.0f;"},
    {FailureKind::hang, "while (*(volatile const float*)x != 1e30f) {}"},
    {FailureKind::nan, "__syncthreads(); if (blockIdx.x == 0 && threadIdx.x == 0) y[5] = "
                       "__int_as_float(0x7fffffff);"},
    {FailureKind::wrongResult,
     "__syncthreads(); if (blockIdx.x == 0 && threadIdx.x == 0) y[5] = 12345.0f;"},
    {FailureKind::race, "__syncthreads(); if (blockIdx.x == 0 && threadIdx.x == 0) y[5] = "
                        "float(clock64() % 65521);"},
    {FailureKind::misaligned, "*(volatile double*)((char*)y + 4) = 0.0;"},
    {FailureKind::wrongTail, "__syncthreads(); if (row_count == 997 && blockIdx.x == 0 && "
                             "threadIdx.x == 0) y[5] = 12345.0f;"},
    {FailureKind::launch, "__trap();"},
    {FailureKind::spill, "float a[96];\n#pragma unroll\nfor (int i = 0; i < 96; ++i) a[i] = "
                         "x[7 * i + threadIdx.x];\n__syncthreads();\nfloat s = 0.0f;\n"
                         "#pragma unroll\nfor (int i = 0; i < 96; ++i) s += a[i] * a[95 - i] * i;\n"
                         "if (s == 12345.678f) y[0] = s;"}};

CompileOptions optionsOf(const std::string& schedule) {
  CompileOptions options;
  options.schedule = schedule;
  return options;
}

/// The program of that schedule with a fault in its kernel.
Program faulty(const std::string& schedule, const Fault& fault) {
  Program program = Program::compile(Module::parse(kGate), optionsOf(schedule));
  std::string text = program.text(Stage::cuda);
  text.insert(text.rfind('}'), std::string(fault.statement) + "\n");
  if (fault.kind == FailureKind::spill) { // 32 registers a thread
    std::size_t begin = text.find("KILN_KERNEL("), end = text.find(')', begin);
    text.replace(begin, end - begin + 1, "KILN_KERNEL(1024, 2)");
  }
  return Program::resume(Stage::cuda, text, optionsOf(schedule));
}

/// Compiles as the GPU does, but some schedules with a fault.
class FaultyCompiler final : public Device {
 public:
  explicit FaultyCompiler(std::map<std::string, Fault> faults) : faults(std::move(faults)) {}
  void begin(const Task& task) override { inner->begin(task); }
  Compiled compile(const Proposal& proposal) override {
    auto fault = faults.find(proposal.schedule);
    if (fault == faults.end())
      return inner->compile(proposal);
    try {
      return artifactOf(faulty(proposal.schedule, fault->second));
    } catch (const Error& error) {
      EXPECT_NE(std::string_view(error.what()).find("spills"), std::string_view::npos)
          << error.what();
      return autotune::Failure{proposal.schedule, "", "", FailureKind::spill, error.what()};
    }
  }
  Check verify(const Artifact& artifact, std::uint64_t seed) override {
    return inner->verify(artifact, seed);
  }
  Batch time(std::span<const Artifact* const> kernels, std::size_t rounds) override {
    return inner->time(kernels, rounds);
  }
  Conditions conditions() override { return inner->conditions(); }

 private:
  std::map<std::string, Fault> faults;
  std::unique_ptr<Device> inner = gpuDevice();
};

DeviceFactory gpuWorker() {
  WorkerOptions options;
  options.command = {KILN_COMMAND, "worker", "gpu"};
  options.verify = options.time = std::chrono::seconds(15);
  return [options] { return std::make_unique<Worker>(options); };
}

Problem gateProblem(std::size_t count) {
  const Target& target = findTarget("sm_90a");
  rows::Facts facts;
  facts.width = 128;
  facts.rows = kRows;
  facts.inputs = {{4, 4}, {4, 4}};
  facts.outputs = {{4, 4}};
  facts.operations = 1;
  facts.packed = facts.dense = true;
  Problem problem;
  problem.key.function = "gate";
  problem.label = "gate";
  problem.task.module = kGate;
  problem.task.sizes = {kRows};
  const auto model = std::make_shared<rows::Model>(facts, kRows);
  problem.spaces = {{"kiln_gate", model, {}, 0, {}}};
  for (autotune::Candidate& candidate : model->space(target, model::Listing::likely).feasible)
    if (rows::Schedule::of(candidate.schedule).grid == rows::Grid::oneShot &&
        autotune::test::spaceOf(problem).size() < count)
      autotune::test::spaceOf(problem).push_back(candidate);
  return problem;
}

/// Needs no GPU: the edits are CUDA, and only one of them spills.
TEST(FaultKernels, Compile) {
  if (std::string why = kiln::test::whyNoNvrtc(); !why.empty())
    GTEST_SKIP() << why;
  Problem problem = gateProblem(2);
  for (const Fault& fault : kFaults) {
    bool spilled = false;
    try {
      EXPECT_FALSE(artifactOf(faulty(toText(autotune::test::spaceOf(problem)[1].schedule), fault))
                       .cubin.empty());
    } catch (const Error& error) {
      spilled = std::string_view(error.what()).find("spills") != std::string_view::npos;
      EXPECT_TRUE(spilled) << error.what();
    }
    EXPECT_EQ(spilled, fault.kind == FailureKind::spill) << name(fault.kind);
  }
}

class TuneOnDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string why = whyNoGpu(); !why.empty())
      GTEST_SKIP() << why;
    if (std::string why = kiln::test::whyNoNvrtc(); !why.empty())
      GTEST_SKIP() << why;
    const DeviceInfo& device = Driver::get().devices().at(0);
    if (device.major != 9)
      GTEST_SKIP() << "the kernels of this test are for sm_90a, the GPU is sm_" << device.major
                   << device.minor;
  }
};

TEST_F(TuneOnDevice, FaultKernelsEndAsRows) {
  Problem problem = gateProblem(24);
  std::map<std::string, Fault> faults;
  std::map<std::string, FailureKind> planted;
  std::size_t place = 2;
  for (const Fault& fault : kFaults) {
    const std::string schedule = autotune::test::scheduleAt(problem, place++);
    faults.emplace(schedule, fault);
    planted.emplace(schedule, fault.kind);
  }
  autotune::test::MemoryJournal journal;
  DeviceFactory compiler = [&] { return std::make_unique<FaultyCompiler>(faults); };
  SearchOptions options = autotune::test::thorough();
  Result result = tune({&problem, 1}, journal, gpuWorker(), compiler, options).at(0);
  std::map<std::string, FailureKind> found;
  for (const autotune::Failure& failure : journal.history(problem.key).failures) {
    found[failure.schedule] = failure.kind;
    std::printf("%-18s %.120s\n", std::string(name(failure.kind)).c_str(), failure.log.c_str());
  }
  EXPECT_EQ(found, planted);
  ASSERT_TRUE(result.choice) << result.reason;
  EXPECT_FALSE(planted.contains(result.choice->schedule));
  std::printf("chosen: %s; %s\n", result.choice->schedule.c_str(), result.choice->reason.c_str());
}

TEST_F(TuneOnDevice, APlainCopyTakesTurns) {
  Module module = Module::fromOp({"layer_norm", {-1, 128}, DType::f32});
  Program program = Program::compile(module);
  Artifact artifact = artifactOf(program);
  Task task;
  task.module = program.text(Stage::module);
  task.sizes = {65536};
  std::unique_ptr<Device> device = gpuWorker()();
  device->begin(task);
  const Artifact* kernels[] = {nullptr, &artifact, nullptr};
  Batch batch = device->time(kernels, kLooks.back());
  ASSERT_EQ(batch.samples.size(), 3u);
  const double copy = medianInterval(batch.samples[0]).middle;
  const double kernel = medianInterval(batch.samples[1]).middle;
  std::printf("layer_norm 65536x128 f32: %.2f us, a copy %.2f us\n", kernel, copy);
  EXPECT_EQ(compare(batch.samples[0], batch.samples[2]).outcome, Outcome::same);
  EXPECT_NEAR(copy / kernel, 1, 0.25); // it is bound by memory
}

TEST_F(TuneOnDevice, TwoCopiesAreTheSameAndThreePercentAreFound) {
  constexpr int tunes = 100;
  Module module = Module::fromOp({"layer_norm", {-1, 128}, DType::bf16});
  Program program = Program::compile(module);
  Artifact artifact = artifactOf(program);
  Task task;
  task.module = program.text(Stage::module);
  task.sizes = {65536};
  std::unique_ptr<Device> device = gpuWorker()();
  device->begin(task);
  ASSERT_TRUE(device->verify(artifact, 1).verdict.pass);
  const Artifact* copies[] = {&artifact, &artifact};
  int same = 0, found = 0, throttled = 0;
  double median = 0;
  for (int i = 0; i < tunes; ++i) {
    Batch batch = device->time(copies, kLooks.back());
    throttled += batch.conditions.throttled;
    std::vector<double> slower = batch.samples[1];
    for (double& sample : slower)
      sample *= 1.03;
    auto outcome = [&](const std::vector<double>& other) {
      Comparison comparison;
      for (std::size_t look : kLooks)
        if (comparison =
                compare(std::span(batch.samples[0]).first(look), std::span(other).first(look));
            comparison.outcome != Outcome::open)
          break;
      return comparison.outcome;
    };
    same += outcome(batch.samples[1]) == Outcome::same;
    found += outcome(slower) == Outcome::faster;
    median = medianInterval(batch.samples[0]).middle;
  }
  Conditions now = device->conditions();
  std::printf("layer_norm 65536x128 bf16, %.2f us: two copies the same in %d of %d tunes, planted "
              "3 %% found in %d; %d throttled; %s, driver %s, SM %d MHz, %d C\n",
              median, same, tunes, found, throttled, now.uuid.c_str(), now.driver.c_str(),
              now.smClockMHz, now.temperatureC);
  EXPECT_GE(same, tunes * 95 / 100);
  EXPECT_GE(found, tunes * 95 / 100);
}

} // namespace
