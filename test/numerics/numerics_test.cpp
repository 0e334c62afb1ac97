// Runs the numerics table, one test a case, on the host target and, where there is one, on a GPU.
#include "codegen/backend/Driver.h"
#include "test/numerics/Runner.h"
#include "test/numerics/Skip.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <tuple>

using namespace kiln;
using namespace kiln::test;

namespace {

class Numerics : public testing::TestWithParam<Case> {};

TEST_P(Numerics, AgreesWithFp64) {
  skipIfUnavailable([] { EXPECT_EQ(problemsOf(GetParam(), Where::host), "") << GetParam().text; });
}

class NumericsOnGpu : public testing::TestWithParam<Case> {};

TEST_P(NumericsOnGpu, AgreesWithFp64) {
  if (std::string why = whyNoGpu(); !why.empty())
    GTEST_SKIP() << why;
  skipIfUnavailable([] { EXPECT_EQ(problemsOf(GetParam(), Where::gpu), "") << GetParam().text; });
}

class Kernels : public testing::TestWithParam<Case> {};

/// No spill, no broken promise, as the assembler for sm_90a says; an exception fails the test.
TEST_P(Kernels, Assembles) {
  skipIfUnavailable([] { assemble(GetParam()); });
}

/// The first case of each kernel: of others the numbers differ. Where there are kernels of bf16 and
/// of fp16, which differ in conversions alone, one of them.
std::vector<Case> casesOfKernels() {
  std::vector<Case> cases = allCases();
  std::set<std::tuple<std::string, std::string, bool>> seen;
  const std::regex half("([^b])f16");
  std::erase_if(cases, [&](const Case& one) {
    std::string text = std::regex_replace(one.text, half, "$1bf16");
    return !seen.emplace(std::move(text), one.schedule, one.backward).second;
  });
  return cases;
}

std::string nameOf(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Table, Numerics, testing::ValuesIn(allCases()), nameOf);
INSTANTIATE_TEST_SUITE_P(Table, Kernels, testing::ValuesIn(casesOfKernels()), nameOf);
INSTANTIATE_TEST_SUITE_P(Table, NumericsOnGpu, testing::ValuesIn(allCases()), nameOf);

TEST(NumericsTable, EveryOpHasRows) {
  std::set<std::string> listed;
  for (const Case& numericCase : allCases())
    listed.insert(numericCase.op);
  std::string words = KILN_OPS_TEXT;
  for (std::size_t at = 0; at < words.size();) {
    std::size_t end = std::min(words.find(' ', at), words.size());
    EXPECT_TRUE(listed.erase(words.substr(at, end - at))) << words.substr(at, end - at);
    at = end + 1;
  }
  EXPECT_TRUE(listed.empty()) << *listed.begin() << " is no word of KILN_OPS";
}

/// What is allowed is not so much that a wrong result would pass.
TEST(NumericsTable, DisturbedResultsFail) {
  Case plain = allCases().front();
  skipIfUnavailable([&] {
    EXPECT_EQ(problemsOf(plain, Where::host, 0), "");
    EXPECT_NE(problemsOf(plain, Where::host, 3), "");
  });
}

} // namespace
