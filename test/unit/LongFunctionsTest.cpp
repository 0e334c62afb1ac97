// Functions that are too much for one kernel: how they are parted, and that compiling them takes
// time that grows with their length. What they compute is checked in test/cli/run_test.py.
#include "kiln/derivative.h"
#include "test/backend/DeviceText.h"
#include "test/backend/Helpers.h"
#include "test/numerics/LongTexts.h"
#include "test/unit/Options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <functional>
#include <regex>

using namespace kiln;
using namespace kiln::test;

namespace {

Program compiled(const std::string& text, bool backward = false, const std::string& arch = "") {
  CompileOptions options = untilCuda();
  options.backward = backward;
  if (!arch.empty())
    options.arch = arch;
  return Program::compile(Module::parse(text), options);
}

#ifdef KILN_SANITIZED
constexpr bool isTimed = false; // sanitizers take several times as long, on a slow machine any time
#else
constexpr bool isTimed = true;
#endif
/// Seconds of a processor: other work on the machine does not count.
template <class Compile> double secondsOf(Compile compile) {
  const std::clock_t start = std::clock();
  compile();
  return double(std::clock() - start) / CLOCKS_PER_SEC;
}
double secondsOf(const std::string& text, bool backward) {
  return secondsOf([&] { compiled(text, backward); });
}

/// How many times the processor's time of 250 operations 1000 of them take: about four where each
/// takes the same, sixteen where each looks at all others. A slow machine is slow for both.
constexpr double mostGrowth = 10;
struct Growth {
  double seconds; // of 1000
  double times;
};
template <class Compile> Growth growthOf(Compile compile) {
  compile(10); // what the first call alone does
  const double few = secondsOf([&] { compile(250); });
  const double many = secondsOf([&] { compile(1000); });
  return {many, many / few};
}

TEST(LongFunctions, AChainBecomesSeveralKernels) {
  Program program = compiled(longChainText(1000));
  EXPECT_EQ(program.launches(), 4U); // 320 operations each, in runs of four
  ASSERT_EQ(program.remarks().size(), 3U);
  EXPECT_HAS(program.remarks()[0], "324 operations an element; a kernel has up to 320");
  EXPECT_EQ(compiled(longChainText(300)).launches(), 1U);
}

TEST(LongFunctions, ASumBecomesSeveralKernels) {
  Program program = compiled(longSumText(250));
  EXPECT_EQ(program.launches(), 5U);
  EXPECT_HAS(program.remarks()[0], "tensors read or written; a kernel has up to 64");
}

/// Forty rows of 32 KB are more than a multiprocessor has, of newer ones and of older ones.
TEST(LongFunctions, WhatFitsNoScheduleIsParted) {
  const std::string text = longSumText(40, 8192);
  for (const char* arch : {"sm_90a", "sm_86"}) {
    Program program = compiled(text, false, arch);
    EXPECT_GT(program.launches(), 1U) << arch;
    EXPECT_HAS(program.remarks()[0], std::string("fits no schedule on ") + arch);
  }
  EXPECT_GE(compiled(text, false, "sm_86").launches(), compiled(text).launches());
}

int countOf(const std::string& text, const std::string& pattern) {
  const std::regex found(pattern);
  return static_cast<int>(
      std::distance(std::sregex_iterator(text.begin(), text.end(), found), std::sregex_iterator()));
}

/// Many sines are calls of one function, few are written out.
TEST(LongFunctions, OperationsOfManyInstructionsAreCalled) {
  const std::string few = compiled(repeatedText("sin", 12)).text(Stage::cuda);
  EXPECT_EQ(countOf(few, "\\bsine\\("), 12);
  EXPECT_FALSE(contains(few, "KILN_OUTLINE"));
  const std::string many = compiled(repeatedText("sin", 13)).text(Stage::cuda);
  EXPECT_EQ(countOf(many, "\\bsine\\("), 1);
  EXPECT_EQ(countOf(many, "KILN_OUTLINE float outlined_sine\\(float a\\)"), 1);
  EXPECT_EQ(countOf(many, "\\boutlined_sine\\("), 14);
  EXPECT_FALSE(contains(compiled(repeatedText("exp", 100)).text(Stage::cuda), "KILN_OUTLINE"));
}

/// The numbers are those of what is written out: here of two kernels, with twelve sines each.
TEST(LongFunctions, WhatIsCalledComputesTheSame) {
  const std::string whole = repeatedText("sin", 24),
                    halves = std::regex_replace(whole, std::regex("math.sin %v11 "),
                                                "math.sin %v11 {kiln.cut} ");
  constexpr std::int64_t rows = 3, width = 128;
  std::vector<float> x(rows * width), called(x.size()), writtenOut(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = std::ldexp(1.0F + float(i) / 64.0F, int(i % 40) - 10) * (i % 2 == 0 ? 1.0F : -1.0F);
  for (auto [text, y] : {std::pair{&whole, &called}, {&halves, &writtenOut}}) {
    const Program program = compiled(*text);
    EXPECT_EQ(contains(program.text(Stage::cuda), "outlined_sine"), text == &whole);
    Buffer inputs[] = {{x.data(), {rows, width}, {}}}, outputs[] = {{y->data(), {rows, width}, {}}};
    program.runOnHost(inputs, outputs);
  }
  EXPECT_EQ(called, writtenOut);
}

/// Several kernels share the definitions.
TEST(LongFunctions, FunctionsThatKernelsCallAreDefinedOnce) {
  const Program program = compiled(repeatedText("sin", 400), true);
  const std::string& text = program.text(Stage::cuda);
  EXPECT_GT(program.launches(), 4U);
  EXPECT_EQ(countOf(text, "KILN_OUTLINE"), 2);
}

/// An argument may have the name of one.
TEST(LongFunctions, ArgumentsMayBeNamedLikeWhatIsCalled) {
  const std::string text =
      std::regex_replace(repeatedText("sin", 20), std::regex("(%v0: [^)]*)\\)"),
                         "$1 {kiln.name = \"outlined_sine\"})");
  EXPECT_HAS(compiled(text).text(Stage::cuda), "const float* outlined_sine_1");
}

TEST(LongFunctions, ManyReadersOfOneTensorAreOneKernel) {
  EXPECT_EQ(compiled(manyReadersText(100)).launches(), 1U);
}

TEST(LongFunctions, ABackwardSavesAValueEveryFewSteps) {
  auto savedOf = [](int operations) {
    const Derivative derived = differentiate(Module::parse(longChainText(operations)));
    CompileOptions options = untilCuda();
    options.function = derived.forward;
    return Program::compile(derived.module, options).outputs().size() - 1;
  };
  EXPECT_EQ(savedOf(60), 0U);
  EXPECT_EQ(savedOf(400), 6U);
}

/// A kernel that a chain ends in nests no deeper than compilers of C++ accept.
TEST(LongFunctions, ExpressionsAreNotNestedWithoutEnd) {
  const std::string text = compiled(longChainText(300)).text(Stage::cuda);
  int depth = 0, most = 0;
  for (char c : text) {
    depth += (c == '(') - (c == ')');
    most = std::max(most, depth);
  }
  EXPECT_LT(most, 64);
  EXPECT_GT(most, 16);
}

/// Twice the length takes about twice the time; the bounds in seconds are for slow machines.
TEST(LongFunctions, CompileInTimeThatGrowsWithTheirLength) {
  for (bool backward : {false, true}) {
    const Growth chain = growthOf([&](int length) { compiled(longChainText(length), backward); });
    EXPECT_LT(chain.times, mostGrowth);
    if (isTimed) {
      EXPECT_LT(chain.seconds, backward ? 4 : 2);
    }
    EXPECT_LT(growthOf([&](int length) { compiled(longSumText(length), backward); }).times,
              mostGrowth);
  }
  if (!isTimed)
    return;
  EXPECT_LT(secondsOf(longChainText(2000), true), 8);
  EXPECT_LT(secondsOf(longSumText(500), false), 4);
}

/// Down to the cubin. A schedule that spills would be compiled twice, with all other kernels. Error
/// functions take longest, beside other work more than the others may.
TEST(LongFunctions, BackwardsOfAThousandOperationsCompileInSeconds) {
  if (const std::string why = whyNoNvrtc(); !why.empty())
    GTEST_SKIP() << why;
  CompileOptions options;
  options.backward = true;
  auto repeated = [](const char* function) {
    return [=](int length) { return repeatedText(function, length); };
  };
  struct Chain {
    std::function<std::string(int)> text;
    double most; // seconds
  };
  const Chain chains[] = {{repeated("exp"), 6},  {repeated("tanh"), 6},
                          {repeated("sin"), 6},  {repeated("cos"), 6},
                          {repeated("erf"), 20}, {[](int n) { return productsText(n); }, 6}};
  for (const Chain& chain : chains) {
    std::vector<std::string> remarks;
    const Growth growth = growthOf([&](int length) {
      remarks = Program::compile(Module::parse(chain.text(length)), options).remarks();
    });
    EXPECT_LT(growth.times, mostGrowth) << chain.text(2);
    if (isTimed) {
      EXPECT_LT(growth.seconds, chain.most) << chain.text(2);
    }
    for (const std::string& remark : remarks)
      EXPECT_FALSE(contains(remark, "choice 1 of the cost model")) << remark;
  }
}

/// Of a long kernel a thread has few elements, and the code of each is written out once.
TEST(LongFunctions, ThreadsOfLongKernelsHaveFewElements) {
  for (const std::string& text : {repeatedText("exp", 300), repeatedText("tanh", 300)})
    EXPECT_HAS(compiled(text).text(Stage::cuda), "lanes = 128, vector = 1, rows = 1,");
  EXPECT_FALSE(contains(compiled(repeatedText("exp", 20)).text(Stage::cuda), "vector = 1,"));
}

/// `operations` additions with a line in their middle.
std::string additionsAround(int operations, const std::string& middle) {
  std::string text = "func.func @f(%v0: tensor<?x64xf32>, %y: tensor<?x64xf32>) "
                     "-> tensor<?x64xf32> {\n";
  for (int i = 0; i < operations; ++i)
    text += i == operations / 2
                ? fmt::format(fmt::runtime(middle), i + 1, i)
                : fmt::format("  %v{} = arith.addf %v{}, %y : tensor<?x64xf32>\n", i + 1, i);
  return text + fmt::format("  return %v{} : tensor<?x64xf32>\n}}\n", operations);
}

/// Runs of a long function end at what is cut, and at what is no map.
TEST(LongFunctions, RunsKeepToWhatIsAsked) {
  const std::string plain = additionsAround(300, "  %v{} = arith.addf %v{}, %y : "
                                                 "tensor<?x64xf32>\n");
  EXPECT_EQ(compiled(plain).launches(), 1U);
  const std::string cut =
      additionsAround(300, "  %v{} = arith.addf %v{}, %y {{kiln.cut}} : tensor<?x64xf32>\n");
  EXPECT_EQ(compiled(cut).launches(), 2U);
  const std::string reduced =
      additionsAround(300, "  %v{} = kiln.softmax %v{} : tensor<?x64xf32> -> tensor<?x64xf32>\n");
  EXPECT_EQ(compiled(reduced).launches(), 1U);
}

TEST(LongFunctions, AreLimited) {
  EXPECT_HAS(errorOf(ErrorKind::input, [] { compiled(longChainText(10001)); }),
             "operations; a function has up to 10000");
  EXPECT_HAS(errorOf(ErrorKind::input, [] { compiled(longListText(321)); }),
             "321 operations over lists of tensors; a function over lists has up to 320");
  compiled(longListText(320));
  EXPECT_HAS(errorOf(ErrorKind::input, [] { compiled(manySizesText(65)); }),
             "65 run-time sizes, none of which has to equal another; a function has up to 64");
  compiled(manySizesText(64));
}

} // namespace
