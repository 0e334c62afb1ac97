// Batches: tensors of the examples, the same whatever the number of threads and wherever a run is
// taken up again; refusals at the step that they concern.
#include "Helpers.h"

#include "models/alphafold/features/Loader.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <map>

namespace kiln::alphafold::test {

namespace {

/// A cache of a few chains of different lengths and depths.
class LoaderTest : public testing::Test {
 protected:
  LoaderTest() {
    for (int i = 0; i < 4; ++i) {
      Chain chain = randomChain(20 + 15 * i, 5 + 20 * i, i, std::uint64_t(i));
      chain.name = "1ab" + std::to_string(i) + "_A";
      writeChain(folder.path, chain, "");
    }
    dataset = std::make_unique<Dataset>(DatasetOptions{.caches = {folder.path}});
    options.example.crop = 24;
    options.example.clusters = 6;
    options.example.extraRows = 8;
    options.example.templates = 2;
    options.example.passes = 4;
    options.batch = 2;
  }

  static void expectSame(const Batch& a, const Batch& b) {
    EXPECT_EQ(a.chains, b.chains);
    EXPECT_EQ(a.passes, b.passes);
    forEachField([](std::string_view name, bool, const at::Tensor& x,
                    const at::Tensor& y) { EXPECT_TRUE(at::equal(x, y)) << name; },
                 a, b);
  }

  Folder folder;
  std::unique_ptr<Dataset> dataset;
  LoaderOptions options;
};

TEST_F(LoaderTest, BatchesAreTheExamplesOneBehindTheOther) {
  const Chain first = randomChain(30, 9, 2, 1), second = randomChain(20, 40, 0, 2);
  const std::vector<Example> examples = {makeExample(first, options.example, 1),
                                         makeExample(second, options.example, 2)};
  const Batch batch = collate(examples);
  EXPECT_EQ(batch.passes, 4);
  EXPECT_EQ(batch.size(), 2);
  EXPECT_EQ(batch.msaFeat.sizes(), (at::IntArrayRef{4, 2, 6, 24, 49}));
  EXPECT_EQ(batch.extraMsaFeat.sizes(), (at::IntArrayRef{4, 2, 8, 24, 25}));
  EXPECT_EQ(batch.rigidgroupsGtFrames.sizes(), (at::IntArrayRef{2, 24, 8, 4, 4}));
  EXPECT_EQ(batch.seqLength.sizes(), (at::IntArrayRef{2}));
  EXPECT_EQ(batch.aatype.scalar_type(), at::kLong);
  EXPECT_EQ(batch.msaFeat.scalar_type(), at::kFloat);
  for (std::int64_t b = 0; b < 2; ++b)
    forEachField(
        [&](std::string_view name, bool isPerPass, const at::Tensor& all, const auto& one) {
          const at::Tensor own = all.select(isPerPass ? 1 : 0, b).contiguous();
          ASSERT_EQ(own.sizes(), at::IntArrayRef(one.shape)) << name;
          using Element = std::decay_t<decltype(one.values[0])>;
          EXPECT_TRUE(std::equal(one.values.begin(), one.values.end(),
                                 static_cast<const Element*>(own.const_data_ptr())))
              << name;
        },
        batch, examples[b]);
  const Batch pass = batch.pass(2);
  EXPECT_TRUE(at::equal(pass.msaFeat, batch.msaFeat[2]));
  EXPECT_TRUE(at::equal(pass.aatype, batch.aatype));
  EXPECT_EQ(refusal([&] { batch.pass(4); }), "pass 4 of a batch that has 4");
  expectSame(batch.to(at::kCPU), batch);
  const auto one = batch.one(3, 1);
  EXPECT_TRUE(at::equal(one.msaFeat, batch.msaFeat[3][1]));
  EXPECT_TRUE(at::equal(one.rigidgroupsGtFrames, batch.rigidgroupsGtFrames[1]));
  EXPECT_EQ(one.resolution.dim(), 0);
  EXPECT_EQ(refusal([&] { batch.one(0, 2); }), "example 2 of a batch that has 2");
}

TEST_F(LoaderTest, RefusesWhatDoesNotGoTogether) {
  ExampleOptions larger = options.example;
  larger.crop = 32;
  const Chain chain = randomChain(30, 9, 2, 1);
  EXPECT_EQ(refusal([&] {
              collate({makeExample(chain, options.example, 1), makeExample(chain, larger, 1)});
            }),
            "aatype: of 1abc_1 it is [24], of 1abc_1 [32]; a batch needs the same sizes");
  EXPECT_EQ(refusal([] { collate({}); }), "a batch of no example; at least one is needed");
  options.rank = 2;
  options.ranks = 2;
  EXPECT_EQ(refusal([&] { Loader(*dataset, options); }),
            "rank 2 of 2: ranks go from 0 to one less than their number");
  options.workers = 0;
  EXPECT_NE(refusal([&] { Loader(*dataset, options); }).find("by 0 threads"), std::string::npos);
}

TEST_F(LoaderTest, GivesTheSameWhateverTheNumberOfThreads) {
  constexpr int steps = 12;
  std::vector<Batch> expected;
  for (int step = 0; step < steps; ++step)
    expected.push_back(makeBatch(*dataset, options, step));
  for (int workers : {1, 2, 5}) {
    options.workers = workers;
    Loader loader(*dataset, options);
    for (int step = 0; step < steps; ++step) {
      EXPECT_EQ(loader.step(), step);
      expectSame(loader.next(), expected[step]);
    }
    EXPECT_GE(loader.waited(), 0);
  }
  options.firstStep = 7; // a run that is taken up again
  Loader resumed(*dataset, options);
  for (int step = 7; step < steps; ++step)
    expectSame(resumed.next(), expected[step]);
  options.seed = 2;
  const Batch other = makeBatch(*dataset, options, 7);
  EXPECT_FALSE(other.chains == expected[7].chains && other.passes == expected[7].passes &&
               at::equal(other.trueMsa, expected[7].trueMsa));
}

TEST_F(LoaderTest, RanksSeeOtherExamplesOfTheSameStep) {
  options.ranks = 2;
  const Batch zero = makeBatch(*dataset, options, 5);
  options.rank = 1;
  const Batch one = makeBatch(*dataset, options, 5);
  EXPECT_EQ(zero.passes, one.passes);
  EXPECT_FALSE(at::equal(zero.trueMsa, one.trueMsa));
  options.rank = 0;
  options.ranks = 1;
  options.batch = 4; // the same four examples on one rank
  const Batch both = makeBatch(*dataset, options, 5);
  EXPECT_TRUE(at::equal(both.trueMsa, at::cat({zero.trueMsa, one.trueMsa}, 1)));
}

TEST_F(LoaderTest, DrawsPassesUniformly) {
  std::map<std::int64_t, int> counts;
  for (int step = 0; step < 4000; ++step)
    ++counts[passesOf(3, step, 4)];
  ASSERT_EQ(counts.size(), 4U);
  for (const auto& [passes, count] : counts)
    EXPECT_NEAR(count, 1000, 100) << passes;
  EXPECT_EQ(counts.begin()->first, 1);
  EXPECT_EQ(passesOf(11, 3, 4), passesOf(11, 3, 4));
  EXPECT_EQ(passesOf(11, 3, 1), 1);
  options.drawPasses = false;
  EXPECT_EQ(makeBatch(*dataset, options, 1).passes, 4);
}

TEST_F(LoaderTest, SaysWhichFileIsDamaged) {
  for (const DatasetEntry& entry : dataset->entries()) {
    std::string bytes = readFile(entry.chain.path);
    bytes.back() = char(bytes.back() ^ 1);
    writeFile(entry.chain.path, bytes);
  }
  Loader loader(*dataset, options);
  for (int call = 0; call < 2; ++call)
    EXPECT_NE(refusal([&] { loader.next(); }).find("the chain has another hash than it says"),
              std::string::npos);
}

TEST_F(LoaderTest, StagesInPinnedMemoryForAGpu) {
  if (!at::hasCUDA())
    GTEST_SKIP() << "there is no GPU";
  Loader loader(*dataset, options);
  const Batch batch = loader.next();
  EXPECT_TRUE(batch.msaFeat.is_pinned() && batch.aatype.is_pinned());
  const Batch onGpu = batch.to(at::Device(at::kCUDA, 0));
  EXPECT_TRUE(onGpu.extraMsaFeat.is_cuda());
  expectSame(onGpu.to(at::kCPU), batch);
}

/// As README.md has it, in the folder of a cache.
TEST_F(LoaderTest, MakesWholeBatchesOfANamedStage) {
  const at::Device device = at::kCPU;
  const Folder here;
  fs::create_directory_symlink(folder.path, here.path / "features");
  const fs::path before = fs::current_path();
  fs::current_path(here.path);
  {
    const Dataset dataset({.caches = {"features"}});
    Loader loader(dataset, {.example = ExampleOptions::named("initial"), .seed = 1, .workers = 4});
    const Batch batch = loader.next().to(device);
    EXPECT_EQ(batch.msaFeat.sizes(), (at::IntArrayRef{batch.passes, 1, 128, 256, 49}));
  }
  fs::current_path(before);
}

TEST_F(LoaderTest, EndsWhileItsThreadsWork) {
  options.workers = 5;
  for (int i = 0; i < 10; ++i) {
    Loader loader(*dataset, options);
    if (i % 2 == 0)
      loader.next();
  }
}

} // namespace

} // namespace kiln::alphafold::test
