// A program that runs: kernels come from stores, nothing is compiled, and what is not there is told
// with its reason. Launches go to the stand-in driver, so no GPU is needed.
#include "kiln/tune.h"
#include "kiln/workload.h"
#include "test/store/TunerFixture.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <sqlite3.h>
#include <thread>

using namespace kiln;
using namespace kiln::test;

namespace {

/// Changes a store behind the library's back.
void edit(const std::filesystem::path& store, const char* sql) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(store.c_str(), &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, sql, nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(database);
}

TEST_F(TunerTest, WhatIsStoredIsNotCompiledAgain) {
  std::uint64_t before = compilations();
  Cache cache = Cache::open(path("store"));
  Cache::Result first = cache.compile(softmax(64));
  EXPECT_TRUE(first.compiled);
  EXPECT_GT(compilations(), before);
  before = compilations();
  Cache::Result again = Cache::open(path("store")).compile(softmax(64));
  EXPECT_FALSE(again.compiled);
  EXPECT_EQ(compilations(), before);
  EXPECT_TRUE(std::ranges::equal(first.program.cubin(), again.program.cubin()));
  EXPECT_EQ(first.program.launchPlan(), again.program.launchPlan());
  ASSERT_EQ(again.program.kernels().size(), first.program.kernels().size());
  const KernelInfo &a = first.program.kernels()[0], &b = again.program.kernels()[0];
  EXPECT_EQ(a.schedule, b.schedule);
  EXPECT_EQ(a.usage.registers, b.usage.registers);
  EXPECT_EQ(a.usage.sharedBytes, b.usage.sharedBytes);
  EXPECT_EQ(a.residentBlocks, b.residentBlocks);
  EXPECT_EQ(b.usage.spillLoadBytes, -1);
  EXPECT_EQ(again.program.arch(), "sm_90a");
}

TEST_F(TunerTest, SameCubinOfOtherRowsKeepsItsOwnPlan) {
  Cache cache = Cache::open(path("store"));
  cache.compile(softmax(64));
  cache.compile(softmax(4096));
  EXPECT_EQ(cache.compile(softmax(64)).program.inputs()[0].shape[0].size, 64);
  EXPECT_EQ(cache.compile(softmax(4096)).program.inputs()[0].shape[0].size, 4096);
}

TEST_F(TunerTest, KeysHaveTheFieldsOfTheFunction) {
  Module module = Module::parse(
      "func.func @gate(%x: tensor<?x128xf32>, %g: tensor<?x128xf32>) -> tensor<?x128xf32> {\n"
      "  %y = arith.mulf %x, %g : tensor<?x128xf32>\n  return %y : tensor<?x128xf32>\n}");
  Module spaced =
      Module::parse("// The same, written otherwise.\nfunc.func @gate(%x: tensor<?x128xf32>,\n"
                    "    %g: tensor<?x128xf32>) -> tensor<?x128xf32> {\n"
                    "  %product = arith.mulf %x, %g : tensor<?x128xf32>\n"
                    "  return %product : tensor<?x128xf32>\n}");
  Cache cache = Cache::open(path("store"));
  EXPECT_TRUE(cache.compile({module, {}, {8192}, "gate 8192"}).compiled);
  EXPECT_FALSE(cache.compile({module, {}, {8192}, "gate 8192"}).compiled);
  EXPECT_TRUE(cache.compile({module, {}, {4096}, "gate 4096"}).compiled);
  EXPECT_TRUE(cache.compile({module, {}, {}, "gate"}).compiled);
  CompileOptions older;
  older.arch = "sm_80";
  EXPECT_TRUE(cache.compile({module, older, {8192}, "gate sm_80"}).compiled);
  // Results are named after their values, and plans hold the names.
  EXPECT_TRUE(cache.compile({spaced, {}, {100}, "gate again"}).compiled);
  auto fieldsOf = [&](const char* arch, const char* shape) {
    for (const cache::Entry& entry : cache::list(path("store")))
      if (entry.arch == arch && entry.tensors.find(shape) != std::string::npos)
        return cache::show(path("store"), entry.key).fields;
    return decltype(cache::Details::fields){};
  };
  auto known = fieldsOf("sm_90a", "[8192x"), arch = fieldsOf("sm_80", "[8192x");
  auto open = fieldsOf("sm_90a", "[?x");
  ASSERT_EQ(known.size(), 9u);
  EXPECT_EQ(known[1].second, "f32[8192x128]/16 f32[8192x128]/16 -> f32[8192x128]/16");
  EXPECT_EQ(open[1].second, "f32[?x128]/16 f32[?x128]/16 -> f32[?x128]/16");
  EXPECT_EQ(known[3].second, "sm_90a");
  EXPECT_EQ(arch[4].second, "A100 80 GB, 108 SMs");
  EXPECT_EQ(arch[0].second, known[0].second);
  EXPECT_NE(arch[8].second, known[8].second); // another space
  EXPECT_EQ(known[7].second.size(), 64u);
}

/// A name is made without the sizes that it is given, and few rows leave another space than many.
TEST_F(TunerTest, NamesFindTasksWhateverTheirSizes) {
  driver.currentDevice = 0;
  TuningTask few = softmax(-1, 64), many = few;
  few.sizes = {300};
  many.sizes = {8192};
  fill("store", {few, many});
  Tuner tuner = open("store", true);
  const TuningTask tasks[] = {few, many};
  EXPECT_EQ(tuner.warmup(tasks), 2u);
  for (const TuningTask& task : tasks)
    EXPECT_TRUE(tuner.lookup(tuner.name(task))) << task.sizes[0];
}

TEST_F(TunerTest, LaunchesWhatIsStoredWithoutCompiling) {
  driver.currentDevice = 0;
  TuningTask task = softmax(64), other = softmax(32);
  fill("store", {task, other});
  std::uint64_t before = compilations();
  Tuner tuner = open("store", true);
  TuningTask tasks[] = {task, other};
  EXPECT_EQ(tuner.warmup(tasks), 2u);
  ASSERT_EQ(progress.size(), 2u);
  EXPECT_EQ(progress[1].done, 2u);
  EXPECT_EQ(progress[1].total, 2u);
  driver.calls.clear();
  const Tuned* tuned = tuner.lookup(tuner.name(task));
  ASSERT_TRUE(tuned);
  Buffer x{reinterpret_cast<void*>(0x1000), {64, 128}, {}};
  Buffer y{reinterpret_cast<void*>(0x10000), {64, 128}, {}};
  tuned->executable().launch(std::span(&x, 1), std::span(&y, 1), nullptr, nullptr);
  EXPECT_EQ(compilations(), before);
  EXPECT_EQ(std::ranges::count(driver.calls, "cuLaunchKernelEx"), 1);
  EXPECT_EQ(std::ranges::count(driver.calls, "cuLibraryLoadData"), 0); // warmup did that
  EXPECT_EQ(tuned->source(), "model");
  EXPECT_EQ(tuned->layer(), "user");
  EXPECT_FALSE(tuned->isVendor());
}

TEST_F(TunerTest, LookupsFindAndCount) {
  fill("store", {softmax(64)});
  Tuner tuner = open("store");
  TaskName known = tuner.name(softmax(64)), unknown = tuner.name(softmax(32));
  EXPECT_EQ(tuner.lookup(known), nullptr); // not loaded yet
  const Tuned* tuned = tuner.find(softmax(64));
  ASSERT_TRUE(tuned);
  EXPECT_EQ(tuner.lookup(known), tuned);
  EXPECT_EQ(tuner.find(softmax(64)), tuned);
  EXPECT_EQ(tuner.find(softmax(32)), nullptr);
  EXPECT_EQ(tuner.lookup(unknown), nullptr);
  EXPECT_EQ(tuner.lookup(unknown), nullptr);
  TunerStats stats = tuner.stats();
  EXPECT_EQ(stats.hits, 3u);
  EXPECT_EQ(stats.misses, 4u);
  EXPECT_EQ(stats.tuned, 1u);
  EXPECT_EQ(stats.missing, 1u);
  EXPECT_EQ(stats.missingByField.at("function"), 1u);
}

TEST_F(TunerTest, NamesOfSizesAreCheapAndTheSame) {
  Module gate = Module::parse(
      "func.func @gate(%x: tensor<?x128xf32>) -> tensor<?x128xf32> {\n"
      "  %y = arith.mulf %x, %x : tensor<?x128xf32>\n  return %y : tensor<?x128xf32>\n}");
  Tuner tuner = open("none");
  TaskName base = tuner.name({gate, {}, {}, ""});
  std::int64_t sizes[] = {8192};
  EXPECT_EQ(base.with(sizes), tuner.name({gate, {}, {8192}, ""}));
  EXPECT_NE(base.with(sizes), base);
  EXPECT_NE(base, tuner.name(softmax(64)));
  fill("store", {{gate, {}, {8192}, "gate"}});
  EXPECT_TRUE(open("store").find({gate, {}, {8192}, ""}));
  EXPECT_FALSE(open("store").find({gate, {}, {8193}, ""}));
}

TEST_F(TunerTest, ManyThreads) {
  std::vector<TuningTask> tasks;
  for (std::int64_t rows = 1; rows <= 24; ++rows)
    tasks.push_back(softmax(rows));
  fill("store", {tasks[0], tasks[5], tasks[11]});
  Tuner tuner = open("store");
  std::vector<TaskName> names;
  for (const TuningTask& task : tasks)
    names.push_back(tuner.name(task));
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> readers;
  for (int i = 0; i < 3; ++i)
    readers.emplace_back([&] {
      while (!stop)
        for (std::size_t t = 0; t < names.size(); ++t) {
          const Tuned* tuned = tuner.lookup(names[t]);
          wrong += tuned && tuned->program().inputs()[0].shape[0].size != std::int64_t(t + 1);
        }
    });
  for (const TuningTask& task : tasks)
    tuner.find(task);
  stop = true;
  readers.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(tuner.stats().tuned, 3u);
  EXPECT_EQ(tuner.stats().missing, 21u);
}

TEST_F(TunerTest, StrictMissesSayWhatDiffers) {
  fill("store", {softmax(64)});
  Tuner tuner = open("store", true);
  CompileOptions older;
  older.arch = "sm_80";
  TuningTask other = softmax(64);
  other.options = older;
  std::string text = errorOf(ErrorKind::missing, [&] { tuner.find(other); });
  EXPECT_HAS(text, "arch is 'sm_80'");
  EXPECT_HAS(text, "'sm_90a'");
  TuningTask tasks[] = {softmax(64), softmax(1)};
  EXPECT_HAS(errorOf(ErrorKind::missing, [&] { tuner.warmup(tasks); }), "1 of 2 tasks");
  EXPECT_HAS(errorOf(ErrorKind::missing, [&] { open("none", true).find(softmax(64)); }),
             "no store holds a choice");
}

TEST_F(TunerTest, FreezeKeepsWhatIsKnown) {
  fill("store", {softmax(64)});
  Tuner tuner = open("store"), same = open("store"), less = open("store");
  tuner.find(softmax(64));
  same.find(softmax(64));
  std::string digest = tuner.freeze();
  EXPECT_EQ(digest.size(), 64u);
  EXPECT_EQ(digest, same.freeze());
  EXPECT_NE(digest, less.freeze());
  EXPECT_EQ(less.find(softmax(64)), nullptr);
  EXPECT_TRUE(tuner.find(softmax(64)));
}

TEST_F(TunerTest, ASnapshotDoesNotSeeWhatOthersChooseLater) {
  fill("store", {softmax(64)});
  TunerOptions options = optionsOver("store");
  options.snapshot = true;
  Tuner tuner = Tuner::open(options);
  fill("store", {softmax(32)});
  EXPECT_TRUE(tuner.find(softmax(64)));
  EXPECT_EQ(tuner.find(softmax(32)), nullptr);
  EXPECT_TRUE(open("store").find(softmax(32)));
  options.mode = TunerOptions::Mode::blocking;
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { Tuner::open(options); }), "without `snapshot`");
}

TEST_F(TunerTest, ChoicesAreComparedByWhatWasNotTheModels) {
  for (const char* name : {"a", "b"})
    fill(name, {softmax(64), softmax(32)});
  fill("b", {softmax(16)});
  const TunerChoices none = open("a").choices();
  EXPECT_EQ(none.count, 0u);
  EXPECT_EQ(none.sha256, open("b").choices().sha256) << "the model chooses the same anywhere";
  EXPECT_HAS(none.compiler, "NVRTC ");
  const std::string key = open("a").find(softmax(64))->key();
  cache::pin(path("a"), key, "");
  const TunerChoices one = open("a").choices();
  EXPECT_EQ(one.count, 1u);
  EXPECT_NE(one.sha256, none.sha256);
  cache::pin(path("b"), key, "");
  EXPECT_EQ(one.sha256, open("b").choices().sha256);
  TunerOptions layered = optionsOver("none");
  layered.layers.project = path("b");
  EXPECT_EQ(one.sha256, Tuner::open(layered).choices().sha256) << "whatever layer has it";
}

TEST_F(TunerTest, RecordedShapesAreAWorkload) {
  Tuner tuner = open("none");
  Module gate = Module::parse(
      "func.func @other(%x: tensor<8xf32>) -> tensor<8xf32> {\n  return %x : tensor<8xf32>\n}\n"
      "func.func @gate(%x: tensor<?x128xf32>) -> tensor<?x128xf32> {\n"
      "  %y = arith.mulf %x, %x : tensor<?x128xf32>\n  return %y : tensor<?x128xf32>\n}");
  CompileOptions options;
  options.function = "gate";
  TuningTask often{gate, options, {8192}, "gate 8192"}, seldom = softmax(64);
  seldom.options.backward = true;
  for (int i = 0; i < 3; ++i)
    tuner.find(often);
  tuner.find(seldom);
  tuner.recordShapes(path("shapes.txt"));
  std::ifstream file(path("shapes.txt"));
  std::string text{std::istreambuf_iterator<char>(file), {}};
  Workload workload = parseWorkload(text, path("shapes.txt").string());
  EXPECT_TRUE(workload.errors.empty()) << workload.errors[0];
  ASSERT_EQ(workload.entries.size(), 2u);
  EXPECT_DOUBLE_EQ(workload.entries[0].share, 0.75);
  EXPECT_EQ(workload.entries[0].shape, std::vector<std::int64_t>{8192});
  EXPECT_EQ(workload.entries[0].function, "gate");
  EXPECT_TRUE(workload.entries[1].backward);
  EXPECT_TRUE(std::filesystem::exists(workload.entries[1].what));
}

TEST_F(TunerTest, DamagedCubinsArePassedOverAndMended) {
  fill("store", {softmax(64)});
  edit(path("store"), "UPDATE artifact SET cubin = zeroblob(100)");
  Tuner tuner = open("store");
  EXPECT_EQ(tuner.find(softmax(64)), nullptr);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_HAS(warnings[0], "is passed over");
  Cache cache = Cache::open(path("store"));
  EXPECT_TRUE(cache.compile(softmax(64)).compiled);
  EXPECT_EQ(cache.warnings().size(), 1u);
  warnings.clear();
  EXPECT_TRUE(open("store").find(softmax(64)));
  EXPECT_TRUE(warnings.empty()) << warnings[0];
}

TEST_F(TunerTest, AShippedStoreNeedsNoCompiler) {
  fill("store", {softmax(64)});
  TuningTask task = softmax(64);
  task.options.nvrtc = "/none/libnvrtc.so"; // as on a machine without one
  Tuner tuner = open("store", true);
  const Tuned* tuned = tuner.find(task);
  ASSERT_TRUE(tuned);
  EXPECT_EQ(tuned->key(), cache::list(path("store")).at(0).key);
  // But one that says what is not so is not believed.
  edit(path("store"), "UPDATE toolchain SET nvrtc = '99.0'");
  EXPECT_TRUE(std::ranges::any_of(cache::doctor(path("store")), [](const Finding& f) {
    return f.state == Finding::State::broken && contains(f.detail, "digest");
  }));
}

// What was measured for fixed rows is what a program finds that learns its rows at run time:
// exactly there, and from half to twice as many; nothing is compiled.
TEST_F(TunerTest, FixedSizesServeThoseOfTheMoment) {
  fill("store", {softmax(64)});
  // As if it had been measured: a candidate of its schedule, for which a baseline is a way to get
  // one.
  const std::string chosen = cache::list(path("store")).at(0).schedule;
  cache::recordBaseline(path("store"), softmax(64), {chosen, std::vector<double>(8, 1.0)});
  edit(path("store"),
       "DELETE FROM baseline;"
       "INSERT INTO verdict SELECT candidate.id, cubin, 1, 'fp64', 0, 1, 0, 1 FROM choice "
       "  JOIN candidate ON candidate.schedule = choice.schedule;"
       "UPDATE choice SET source = 'measured'");
  TuneTask task;
  static_cast<TuningTask&>(task) = softmax(64);
  task.general = softmax(-1).module;
  task.generalSizes = {64};
  TuneOptions options;
  options.effort = "none"; // what is known needs no device
  options.worker = {"none"};
  const std::uint64_t before = compilations();
  const TuneResult result = tune({&task, 1}, path("store"), options).at(0);
  EXPECT_TRUE(result.known);
  EXPECT_TRUE(result.general);

  Tuner tuner = open("store");
  auto find = [&](std::int64_t rows) {
    TuningTask wanted = softmax(-1);
    wanted.sizes = {rows};
    return tuner.find(wanted);
  };
  ASSERT_TRUE(find(64));
  EXPECT_EQ(find(64)->source(), "measured");
  EXPECT_EQ(find(64)->schedule(), result.schedule);
  EXPECT_FALSE(find(64)->program().inputs()[0].shape[0].isStatic());
  const Program& fixed = tuner.find(softmax(64))->program();
  EXPECT_TRUE(std::ranges::equal(find(64)->program().cubin(), fixed.cubin()));
  for (std::int64_t rows : {32, 100, 128}) {
    ASSERT_TRUE(find(rows)) << rows;
    EXPECT_EQ(find(rows)->source(), "transferred") << rows;
    EXPECT_EQ(find(rows)->key(), find(64)->key()) << rows;
  }
  EXPECT_FALSE(find(31));
  EXPECT_FALSE(find(129));
  EXPECT_EQ(compilations(), before);
  // The code that it stands for is the code that it would be.
  TuningTask general = softmax(-1);
  general.options.until = Stage::cubin;
  general.options.schedule = result.schedule;
  const Program compiled = Program::compile(general.module, general.options);
  EXPECT_TRUE(std::ranges::equal(compiled.cubin(), fixed.cubin()));
  EXPECT_EQ(compiled.launchPlan(), find(64)->program().launchPlan());
}

TEST_F(TunerTest, ExplainTells) {
  fill("store", {softmax(64)});
  Tuner tuner = open("store");
  std::string text = tuner.explain(softmax(64));
  EXPECT_HAS(text, "user layer: model, #kiln.schedule<");
  EXPECT_HAS(text, "cost model of ");
  text = tuner.explain(softmax(32));
  EXPECT_HAS(text, "miss: function is '");
  EXPECT_HAS(text, "the cost model would take for ");
}

} // namespace
