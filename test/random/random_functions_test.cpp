// New functions at every run, each forward or in both directions, by default or drawn schedules: on
// the host target, whose clocks see races, and on a GPU if there is one. KILN_RANDOM_SEED and
// KILN_RANDOM_COUNT name others; a test is named after its function's seed. KILN_RANDOM_PRINT=1
// prints the texts. One of five functions is an attention.
#include "codegen/backend/Driver.h"
#include "test/numerics/Skip.h"
#include "test/random/Check.h"
#include "test/random/Seed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace kiln;
using namespace kiln::test;

namespace {

void check(std::uint64_t seed, Where where) {
  const Function function = draw(seed);
  if (numberOf("KILN_RANDOM_PRINT", 0) != 0) {
    const Case drawn = caseOf(function);
    fmt::print("{}// rows: {}\n// {}\n// {}\n", drawn.text, function.rows, drawn.schedule,
               drawn.scheduleOfBackward);
  }
  const std::string problems = problemsOf(function, where);
  if (problems.empty())
    return;
  const Function small = shrink(function, where);
  Case smallCase;
  smallCase.text = textOf(small);
  if (small.schedules != 0)
    smallCase = caseOf(small); // a default's crash may lie in what this does
  ADD_FAILURE() << "of the function drawn from seed " << seed << ":\n"
                << problems << "\nsmaller, " << small.rows
                << (small.groups ? " groups of " : " rows")
                << (small.groups ? fmt::format("{} rows", small.groups) : "")
                << (small.backward ? ", forward and backward" : ", forward") << ", schedules '"
                << smallCase.schedule << "' and '" << smallCase.scheduleOfBackward << "':\n"
                << smallCase.text << problemsOf(small, where);
}

void checkAttention(std::uint64_t seed, Where where) {
  const auto say = [](const Attention& attention) {
    const Case drawn = caseOf(attention);
    return fmt::format("{}// sizes: {}{}\n// starts: {} and {}\n// schedules: '{}' and '{}'\n",
                       drawn.text, fmt::join(drawn.sizes, "x"),
                       attention.backward ? ", forward and backward" : "",
                       fmt::join(attention.queryStarts, ", "), fmt::join(attention.keyStarts, ", "),
                       drawn.schedule, drawn.scheduleOfBackward);
  };
  const Attention attention = drawAttention(seed);
  if (numberOf("KILN_RANDOM_PRINT", 0) != 0)
    fmt::print("{}", say(attention));
  const std::string problems = problemsOf(attention, where);
  if (problems.empty())
    return;
  const Attention small = shrink(attention, where);
  ADD_FAILURE() << "of the attention drawn from seed " << seed << ":\n"
                << problems << "\nsmaller:\n"
                << say(small) << problemsOf(small, where);
}

/// Of the functions of a run, so many are attentions.
constexpr std::uint64_t kAttentions = 5; // one of five
std::uint64_t countOf(bool attentions) {
  const std::uint64_t all = numberOf("KILN_RANDOM_COUNT", 100), some = all / kAttentions;
  return attentions ? some : all - some;
}
std::string nameOf(const testing::TestParamInfo<std::uint64_t>& info) {
  return fmt::format("seed_{}", firstSeed() + info.param);
}

class RandomFunctions : public testing::TestWithParam<std::uint64_t> {};
class RandomAttentions : public testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomFunctions, AgreeOnTheHost) {
  skipIfUnavailable([] { check(firstSeed() + GetParam(), Where::host); });
}

TEST_P(RandomFunctions, AgreeOnTheGpu) {
  if (std::string why = whyNoGpu(); !why.empty())
    GTEST_SKIP() << why;
  skipIfUnavailable([] { check(firstSeed() + GetParam(), Where::gpu); });
}

TEST_P(RandomAttentions, AgreeOnTheHost) {
  skipIfUnavailable([] { checkAttention(firstSeed() + GetParam(), Where::host); });
}

TEST_P(RandomAttentions, AgreeOnTheGpu) {
  if (std::string why = whyNoGpu(); !why.empty())
    GTEST_SKIP() << why;
  skipIfUnavailable([] { checkAttention(firstSeed() + GetParam(), Where::gpu); });
}

INSTANTIATE_TEST_SUITE_P(Drawn, RandomFunctions, testing::Range(std::uint64_t{0}, countOf(false)),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Drawn, RandomAttentions, testing::Range(std::uint64_t{0}, countOf(true)),
                         nameOf);

/// Sums of one row that are ready at once share an exchange between its warps.
Function sumsOfARow(std::size_t count) {
  const auto form = [](std::string_view name) {
    return &*std::ranges::find(forms(), name, &Form::name);
  };
  Function function;
  function.width = 1024;
  function.rows = 7;
  function.steps.resize(2);
  for (std::size_t last = 1; function.results.size() < count; last = function.steps.size() - 2) {
    const std::size_t product = function.steps.size();
    function.steps.push_back({form("mul"), Kind::rows, {0, last}});
    function.steps.push_back({form("sum"), Kind::statistic, {product}});
    function.results.push_back({product + 1, "f32"});
  }
  return function;
}

/// Where counts of values are odd at some step of the exchange, two lanes had written one place.
TEST(RandomFunctions, ManySumsOfWideRowsDoNotRace) {
  skipIfUnavailable([] {
    for (std::size_t count : {2, 3, 5, 6, 7, 9, 11, 17})
      EXPECT_EQ(problemsOf(sumsOfARow(count), Where::host), "") << textOf(sumsOfARow(count));
  });
}

/// Of the blocks of a cluster the first has the lanes that have values of rows to store.
TEST(RandomFunctions, RowsOfAClusterAreStoredByItsFirstBlock) {
  Function function;
  function.width = 10000;
  function.rows = 11;
  function.steps.resize(1);
  function.steps.push_back(
      {&*std::ranges::find(forms(), std::string_view("sum"), &Form::name), Kind::statistic, {0}});
  function.results = {{1, "f32"}};
  const char* schedule =
      "#kiln.schedule<lanes = 256, vector = 2, rows = 8, threads = 128, blocks = "
      "1, grid = one_shot, keep = shared, launch = programmatic, cluster = 2>";
  skipIfUnavailable([&] {
    Case numericCase = caseOf(function);
    numericCase.schedule = schedule;
    EXPECT_EQ(problemsOf(numericCase, Where::host), "");
  });
}

TEST(RandomAttentions, SeedsAreReproducible) {
  EXPECT_EQ(caseOf(drawAttention(12345)).text, caseOf(drawAttention(12345)).text);
  EXPECT_NE(caseOf(drawAttention(12345)).text, caseOf(drawAttention(12346)).text);
}

TEST(RandomFunctions, SeedsAreReproducible) {
  EXPECT_EQ(textOf(draw(12345)), textOf(draw(12345)));
  EXPECT_NE(textOf(draw(12345)), textOf(draw(12346)));
}

} // namespace
