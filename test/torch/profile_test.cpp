// kiln::profile on the CPU: tables name the ops of a small program with their counts, traces are
// JSON with the ranges in them, memory has a peak and who allocated it, the meter's arithmetic.
// What a GPU adds is told from events made by hand.
#include "runtime/profile/Tables.h"
#include "test/torch/Helpers.h"

#include <kiln/profile.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

using namespace kiln;
using namespace kiln::test;
using namespace kiln::profile;
using at::Tensor;

namespace {

const Row& find(const std::vector<Row>& rows, const std::string& name,
                const std::string& shapes = "") {
  static const Row none;
  const auto found = std::ranges::find_if(
      rows, [&](const Row& row) { return row.name == name && row.shapes == shapes; });
  return found == rows.end() ? none : *found;
}

/// A step of a program: four products of two shapes, and a backward.
void work() {
  const Tensor x = at::ones({64, 32}), w = at::ones({32, 16}).requires_grad_();
  Tensor loss;
  {
    const auto range = marked("forward");
    for (int i = 0; i < 3; ++i)
      loss = at::mm(x, w);
    loss = at::mm(loss, at::ones({16, 8})).sum();
  }
  const auto range = marked("backward");
  loss.backward();
}

std::filesystem::path fileOf(const std::string& name) {
  return std::filesystem::path(testing::TempDir()) / ("kiln_profile_" + name);
}

TEST(Profile, TablesNameOpsWithTheirCounts) {
  auto profiler = makeProfiler({.schedule = {.wait = 1, .warmup = 1, .active = 2}});
  profiler.start();
  for (int step = 0; step < 5; ++step) { // two of them are recorded
    work();
    profiler.step();
  }
  profiler.stop();
  const auto rows = profiler.ops(), shaped = profiler.ops(true);
  EXPECT_EQ(find(rows, "forward").calls, 2);
  EXPECT_EQ(find(rows, "aten::mm").calls, 2 * (4 + 2)) << "with those of the backward";
  EXPECT_EQ(find(shaped, "aten::mm", "[64, 32] [32, 16]").calls, 2 * 3);
  EXPECT_EQ(find(shaped, "aten::mm", "[64, 16] [16, 8]").calls, 2);
  const Row& forward = find(rows, "forward");
  EXPECT_GT(forward.cpuMicros, forward.selfCpuMicros);
  EXPECT_GE(forward.selfCpuMicros, 0);
  EXPECT_TRUE(std::ranges::is_sorted(rows, std::greater(), &Row::selfCpuMicros));
  EXPECT_TRUE(profiler.kernels().empty());
  std::ostringstream text;
  profiler.printTopTables(text, 5);
  EXPECT_NE(text.str().find("ops by the CPU's time"), std::string::npos);
  EXPECT_NE(text.str().find("ops by input shapes"), std::string::npos);
  EXPECT_EQ(text.str().find("kernels by their time"), std::string::npos);
  EXPECT_NE(text.str().find("aten::mm"), std::string::npos) << text.str();
}

TEST(Profile, ATraceIsJsonWithRangesAndIsWrittenOnce) {
  const auto file = fileOf("trace.json");
  std::filesystem::remove(file);
  auto profiler = makeProfiler();
  EXPECT_THROW(profiler.exportTrace(file), Error);
  profiler.start();
  work();
  profiler.stop();
  EXPECT_THROW(profiler.exportTrace("/no/such/folder/trace.json"), Error);
  EXPECT_EQ(profiler.exportTrace(file), file);
  const auto trace = nlohmann::json::parse(std::ifstream(file));
  std::map<std::string, int> ranges;
  int products = 0;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.value("cat", "") == "user_annotation")
      ++ranges[event.at("name")];
    products += event.value("name", "") == "aten::mm";
  }
  EXPECT_EQ(ranges["forward"], 1);
  EXPECT_EQ(ranges["backward"], 1);
  EXPECT_EQ(products, 6);
  const auto written = std::filesystem::last_write_time(file);
  EXPECT_EQ(profiler.exportTrace(fileOf("second.json")), file);
  EXPECT_FALSE(std::filesystem::exists(fileOf("second.json")));
  EXPECT_EQ(std::filesystem::last_write_time(file), written);
  std::filesystem::remove(file);
}

TEST(Profile, RepeatedSchedulesCallBack) {
  int recorded = 0;
  ProfilerOptions options{.schedule = {.wait = 1, .active = 1, .repeat = 2}};
  options.onRecorded = [&](Profiler& profiler) {
    ++recorded;
    EXPECT_EQ(find(profiler.ops(), "aten::mm").calls, 6);
  };
  auto profiler = makeProfiler(options);
  profiler.start();
  for (int step = 0; step < 8; ++step) {
    work();
    profiler.step();
  }
  profiler.stop();
  EXPECT_EQ(recorded, 2);
  std::vector<Phase> phases;
  for (int step = 0; step < 6; ++step)
    phases.push_back(phaseOf({.wait = 1, .warmup = 1, .active = 2, .repeat = 1}, step));
  EXPECT_EQ(phases, (std::vector{Phase::idle, Phase::warmup, Phase::active, Phase::active,
                                 Phase::idle, Phase::idle}));
  EXPECT_EQ(phaseOf({.active = 1, .repeat = 0}, 1000), Phase::active);
}

TEST(Profile, MemoryHasATimelineAndAPeak) {
  auto profiler = makeProfiler({.memory = true});
  profiler.start();
  {
    const auto range = marked("large");
    const Tensor a = at::zeros({1 << 20}); // 4 MiB, released at the end
    const Tensor b = at::ones({1 << 18});
  }
  const Tensor later = at::zeros({1000});
  profiler.stop();
  const Memory memory = profiler.memory();
  ASSERT_EQ(memory.peaks.size(), 1U);
  EXPECT_EQ(memory.peaks[0].device, "cpu");
  EXPECT_EQ(memory.peaks[0].held, (4 << 20) + (1 << 20));
  EXPECT_TRUE(memory.peaks[0].stack.starts_with("large > aten::ones")) << memory.peaks[0].stack;
  EXPECT_EQ(memory.timeline.back().held, 4000);
  std::ostringstream text;
  profiler.printMemory(text);
  EXPECT_NE(text.str().find("cpu: peak 5.0 MiB"), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("4194304 bytes"), std::string::npos) << text.str();
}

TEST(Profile, BadInputIsRefusedWithItsNumbers) {
  EXPECT_THROW(makeProfiler({.schedule = {.active = 0}}), Error);
  EXPECT_THROW(ThroughputMeter({.window = 0}), Error);
  auto profiler = makeProfiler(), second = makeProfiler();
  EXPECT_THROW(profiler.step(), Error);
  EXPECT_THROW(profiler.ops(), Error);
  profiler.start();
  EXPECT_THROW(second.start(), Error);
  profiler.stop();
  ThroughputMeter meter;
  EXPECT_THROW(meter.step(1), Error);
  if (!at::hasCUDA()) {
    EXPECT_THROW(exportMemorySnapshot(fileOf("memory.pickle")), Error);
  }
}

TEST(Profile, TheMetersArithmetic) {
  double now = 100;
  ThroughputMeter meter({.warmup = 2, .window = 3, .clock = [&] { return now; }});
  EXPECT_EQ(meter.overallRate(), 0);
  meter.start();
  for (double seconds : {10.0, 2.0, 1.0, 1.0, 0.5, 0.5}) {
    now += seconds;
    meter.step(8);
  }
  EXPECT_DOUBLE_EQ(meter.windowRate(), 3 * 8 / 2.0);
  EXPECT_DOUBLE_EQ(meter.steadyRate(), 4 * 8 / 3.0);
  now += 1; // an epoch's end: the last work is waited for
  meter.stop();
  now += 50;
  EXPECT_DOUBLE_EQ(meter.overallRate(), 6 * 8 / 16.0);
  EXPECT_DOUBLE_EQ(meter.steadyRate(), 4 * 8 / 4.0);
  EXPECT_EQ(meter.report(), "48 items in 6 steps: 3.0 /s overall, 8.0 /s steady after 2, "
                            "12.0 /s last 3");
  meter.start();
  now += 1;
  meter.step(5);
  EXPECT_EQ(meter.items(), 5);
  EXPECT_DOUBLE_EQ(meter.windowRate(), 5);
  EXPECT_EQ(meter.steadyRate(), 0) << "still warming up";
}

Event eventOf(Event::Kind kind, const char* name, std::int64_t begin, std::int64_t end,
              std::uint64_t op, std::uint64_t call = 0) {
  Event event;
  event.kind = kind;
  event.name = name;
  event.device = kind == Event::Kind::device ? "cuda:0" : "cpu";
  event.beginNs = begin * 1000;
  event.endNs = end * 1000;
  event.op = op;
  event.call = call;
  return event;
}

TEST(Profile, KernelsCountForTheirOpsAndWhatIsAroundThem) {
  using enum Event::Kind;
  std::vector<Event> events = {
      eventOf(cpu, "forward", 0, 100, 1), eventOf(cpu, "aten::linear", 10, 60, 2),
      eventOf(cpu, "aten::mm", 20, 50, 3), eventOf(cpu, "aten::relu", 70, 90, 4),
      eventOf(cpu, "cuLaunch", 30, 40, 3, 70), eventOf(device, "gemm", 200, 260, 3, 70),
      eventOf(device, "gemm", 260, 300, 3, 1), eventOf(device, "relu", 300, 307, 4, 2),
      // Launched in the range, in no op.
      eventOf(cpu, "cuLaunch", 92, 95, 0, 71), eventOf(device, "own", 310, 315, 0, 71)};
  events.push_back(eventOf(cpu, "aten::mm", 20, 50, 5));
  events.back().thread = 9; // beside, in another thread
  const auto ops = rowsOfOps(events, false);
  EXPECT_EQ(ops[0].name, "aten::mm") << "largest on the device first";
  EXPECT_EQ(ops[0].calls, 2);
  EXPECT_DOUBLE_EQ(ops[0].selfDeviceMicros, 100);
  EXPECT_DOUBLE_EQ(find(ops, "aten::linear").deviceMicros, 100);
  EXPECT_DOUBLE_EQ(find(ops, "aten::linear").selfDeviceMicros, 0);
  EXPECT_DOUBLE_EQ(find(ops, "aten::linear").selfCpuMicros, 20);
  EXPECT_DOUBLE_EQ(find(ops, "forward").deviceMicros, 112);
  EXPECT_DOUBLE_EQ(find(ops, "forward").selfCpuMicros, 27);
  EXPECT_DOUBLE_EQ(find(ops, "cuLaunch").selfDeviceMicros, 5);
  const auto kernels = rowsOfKernels(events);
  EXPECT_EQ(kernels[0].name, "gemm");
  EXPECT_EQ(kernels[0].calls, 2);
  EXPECT_DOUBLE_EQ(kernels[0].selfDeviceMicros, 100);
  const std::string table = tableOf("kernels by their time", kernels, By::device, 1);
  EXPECT_NE(table.find(" 89.29%"), std::string::npos) << table;
  EXPECT_NE(table.find("and 2 more"), std::string::npos) << table;
}

} // namespace
