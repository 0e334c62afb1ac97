// Rows of a routed cross-entropy whose class is none: the report has their number, whoever computes
// the loss, ATen's formula before the kernel is there or the kernel. Of tensors on the CPU.
#include "test/backend/Helpers.h"
#include "test/torch/AutocastInFp32.h"
#include "test/torch/Helpers.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <limits>
#include <thread>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                       most = std::numeric_limits<std::int64_t>::max();

/// How many rows a call adds.
std::uint64_t addedBy(const std::function<void()>& call) {
  const auto before = rowsOutside();
  call();
  return rowsOutside() - before;
}

/// Classes from 0 to `width` - 1 but for those given, which come first.
Tensor classesWith(const std::vector<std::int64_t>& first, std::int64_t rows, std::int64_t width) {
  const Tensor classes = at::arange(rows).remainder(width);
  classes.slice(0, 0, static_cast<std::int64_t>(first.size())).copy_(at::tensor(first, at::kLong));
  return classes;
}

struct Form {
  at::ScalarType dtype;
  std::int64_t reduction;
  bool isTrained;
  double smoothing;
};
std::vector<Form> forms() {
  std::vector<Form> all;
  for (auto reduction : {at::Reduction::None, at::Reduction::Mean, at::Reduction::Sum})
    for (bool isTrained : {false, true})
      all.push_back({at::kFloat, reduction, isTrained, 0.1});
  for (auto [dtype, reduction] : {std::pair(at::kBFloat16, at::Reduction::None),
                                  {at::kBFloat16, at::Reduction::Mean},
                                  {at::kHalf, at::Reduction::Sum}})
    all.push_back({dtype, reduction, false, 0});
  all.push_back({at::kHalf, at::Reduction::Mean, true, 0});
  return all;
}

/// A call of a shape that no other test has, so that there is no kernel; later calls; another
/// number of rows.
TEST(Classes, ThatAreNoneAreCountedInTheFirstCallAsInLaterOnes) {
  enable(onCpu());
  std::int64_t width = 1200, without = 0;
  const auto all = forms();
  for (const Form& form : all) {
    ++width;
    const auto call = [&](std::int64_t rows) {
      const Tensor x = at::randn({rows, width}).to(form.dtype).requires_grad_(form.isTrained);
      x.detach()[20].fill_(NAN); // no such row
      const Tensor t = classesWith({width, -1, 7, least, -100, most, width + 1, 7}, rows, width);
      const Tensor loss = at::cross_entropy_loss(x, t, {}, form.reduction, 7, form.smoothing);
      if (form.isTrained)
        loss.sum().backward();
    };
    const std::string what = std::string(c10::toString(form.dtype)) + ", reduction " +
                             std::to_string(form.reduction) + (form.isTrained ? ", trained" : "");
    BusyCompiler busy(4);
    const auto before = callsByKiln("cross_entropy_loss");
    EXPECT_EQ(addedBy([&] { call(60); }), 6U) << what << ", before";
    without += callsByKiln("cross_entropy_loss") == before ? 1 : 0;
    busy.release();
    const auto later = callsByKiln("cross_entropy_loss");
    EXPECT_EQ(addedBy([&] { call(60); }), 6U) << what << ", after";
    EXPECT_EQ(addedBy([&] { call(61); }), 6U) << what << ", of another number of rows";
    EXPECT_EQ(callsByKiln("cross_entropy_loss"), later + 2) << report();
  }
  EXPECT_GT(without, std::ssize(all) / 2);
}

/// Rows that are ignored are never counted, though their class is none.
TEST(Classes, ThatAreIgnoredAreNotCounted) {
  enable(strictOnCpu());
  for (const std::int64_t ignored : {-100, 1300, 3})
    for (const bool isTrained : {false, true}) {
      const Tensor x = at::randn({60, 1300}).requires_grad_(isTrained),
                   t = classesWith({ignored, ignored, -7, ignored}, 60, 1300);
      EXPECT_EQ(addedBy([&] { at::cross_entropy_loss(x, t, {}, at::Reduction::Mean, ignored); }),
                1U)
          << ignored;
      EXPECT_EQ(
          addedBy([&] { at::cross_entropy_loss(x, at::full_like(t, ignored), {}, 1, ignored); }),
          0U)
          << ignored;
    }
}

/// Calls that are compared with ATen's, that only note shapes and under autocast count once; those
/// that are ATen's raise.
TEST(Classes, AreCountedOnceInEveryMode) {
  const Tensor x = at::randn({60, 1310}), t = classesWith({1310, -1}, 60, 1310);
  const auto call = [&] { at::cross_entropy_loss(x, t); };
  const auto trained = [&] {
    const Tensor leaf = x.detach().requires_grad_();
    at::cross_entropy_loss(leaf, t).backward();
  };
  for (const auto mode : {Mode::use, Mode::verify, Mode::record}) {
    Options options = onCpu();
    options.mode = mode;
    options.strict = mode == Mode::use;
    enable(options);
    for (int i = 0; i < 2; ++i, wait()) {
      EXPECT_EQ(addedBy(call), 2U) << static_cast<int>(mode);
      EXPECT_EQ(addedBy(trained), 2U) << static_cast<int>(mode);
    }
  }
  enable(strictOnCpu());
  EXPECT_EQ(addedBy([&] {
              const Autocast on(at::kCPU);
              at::cross_entropy_loss(x.to(at::kBFloat16), t);
            }),
            2U);
  EXPECT_EQ(addedBy([&] {
              const Guard off(Mode::off);
              EXPECT_THROW(call(), c10::Error);
            }),
            0U);
  Options options = onCpu();
  options.ops = "cross_entropy,-cross_entropy_share"; // ATen computes it for Kiln's kernel
  enable(options);
  EXPECT_EQ(addedBy(trained), 2U);
}

TEST(Classes, OfSeveralThreadsAreAllCounted) {
  enable(strictOnCpu());
  const Tensor x = at::randn({60, 1320}), t = classesWith({1320, -1, least}, 60, 1320);
  EXPECT_EQ(addedBy([&] {
              std::vector<std::jthread> threads;
              for (int i = 0; i < 4; ++i)
                threads.emplace_back([&] {
                  for (int k = 0; k < 5; ++k)
                    at::cross_entropy_loss(x, t);
                });
            }),
            60U);
}

/// The report says what to do, and the log has it once for as many as there are.
TEST(Classes, ThatAreNoneAreToldOf) {
  enable(strictOnCpu());
  const auto before = rowsOutside(); // those are told
  const TemporaryFolder folder;
  Options options = strictOnCpu();
  options.log = folder.path / "log";
  enable(options);
  const std::string told = " rows whose class is out of range have a NaN loss: targets lie in 0 to "
                           "C - 1, or are ignore_index; ATen raises here";
  for (int step = 1; step <= 2; ++step) {
    at::cross_entropy_loss(at::randn({60, 1330}), classesWith({-1}, 60, 1330));
    for (int i = 0; i < 2; ++i)
      EXPECT_TRUE(reports("warning on cross_entropy_loss: " +
                          std::to_string(before + static_cast<std::uint64_t>(step)) + told))
          << report();
  }
  enable(onCpu()); // ends the log
  std::ifstream log(options.log);
  int lines = 0;
  for (std::string line; std::getline(log, line);)
    lines += line.find("warning on cross_entropy_loss: ") != std::string::npos ? 1 : 0;
  EXPECT_EQ(lines, 2);
}

} // namespace
