// What limits a kernel, by hand. An H200 (sm_90a) has 132 multiprocessors at 1.83 GHz; in a
// microsecond they do 132 * 1830 * 4096 = 989.4e6 operations of tensor cores on two-byte types and
// half of that on tf32, 132 * 1830 * 16 = 3.865e6 exponentials, and move 4.8e6 bytes.
#include "codegen/model/Roofline.h"
#include "kiln/plan.h"

#include <gtest/gtest.h>

using namespace kiln;

namespace {

struct LimitRow {
  const char* what;
  OpSpec spec;
  bool backward;
  std::string arch;
  struct Limit {
    double microseconds;
    const char* by;
  };
  std::vector<Limit> kernels; // in the order of the plan
};

constexpr double kOperations = 132 * 1830.0 * 4096, kExponentials = 132 * 1830.0 * 16,
                 kBytes = 4.8e6;
constexpr double kScores = 128 * 4096.0 * 4096; // of 128 heads

OpSpec attentionOf(std::vector<std::int64_t> shape, DType dtype,
                   std::vector<std::pair<std::string, std::string>> settings = {}) {
  OpSpec spec{"attention", std::move(shape), dtype};
  spec.settings = std::move(settings);
  return spec;
}

std::vector<LimitRow> limitTable() {
  const std::vector<std::int64_t> wide = {8, 16, 4096, 128}, narrow = {8, 16, 4096, 32};
  const double seen = 128 * 4096.0 * 4097 / 2; // causal: the diagonal and what is before it
  // 1025 keys a query, but for the first 1024 queries.
  const double window = 128 * (4096.0 * 1025 - 1024.0 * 1025 / 2);
  return {
      {"forward, wide",
       attentionOf(wide, DType::bf16),
       false,
       "sm_90a",
       {{4 * kScores * 128 / kOperations, "tensor cores"}}},
      {"forward, narrow",
       attentionOf(narrow, DType::bf16),
       false,
       "sm_90a",
       {{kScores / kExponentials, "exponentials"}}},
      {"causal",
       attentionOf(wide, DType::f16, {{"causal", "first"}}),
       false,
       "sm_90a",
       {{4 * seen * 128 / kOperations, "tensor cores"}}},
      {"window",
       attentionOf(wide, DType::bf16, {{"causal", "last"}, {"window_left", "1024"}}),
       false,
       "sm_90a",
       {{4 * window * 128 / kOperations, "tensor cores"}}},
      // Three products of tf32 for each of fp32.
      {"fp32",
       attentionOf(wide, DType::f32),
       false,
       "sm_90a",
       {{3 * 4 * kScores * 128 / (kOperations / 2), "tensor cores"}}},
      {"backward in one kernel",
       attentionOf(wide, DType::bf16),
       true,
       "sm_90a",
       {{10 * kScores * 128 / kOperations, "tensor cores"}}},
      // Three products of queries' gradients and four of those of keys and values.
      {"backward",
       attentionOf(wide, DType::bf16, {{"causal", "last"}, {"window_left", "1024"}}),
       true,
       "sm_90a",
       {{6 * window * 128 / kOperations, "tensor cores"},
        {8 * window * 128 / kOperations, "tensor cores"}}},
      {"B200",
       attentionOf(wide, DType::bf16),
       false,
       "sm_100a",
       {{4 * kScores * 128 / (148 * 1860.0 * 8192), "tensor cores"}}},
      // Queries, keys, values and output of two bytes, and a number of four for each query.
      {"few keys",
       attentionOf({8, 16, 16, 64}, DType::bf16),
       false,
       "sm_90a",
       {{128 * 16 * (4 * 64 * 2 + 4) / kBytes, "bytes"}}},
      {"rows",
       {"softmax", {65536, 1024}, DType::bf16},
       false,
       "sm_90a",
       {{65536 * 1024 * 4 / kBytes, "bytes"}}},
  };
}

/// The kernels of attention and of rows alone: others prepare a backward.
std::vector<const Prediction*> limitsOf(const std::vector<KernelPlan>& plans,
                                        const std::string& family) {
  std::vector<const Prediction*> found;
  for (const KernelPlan& plan : plans)
    if (plan.family == family)
      found.push_back(&plan.best.at(0).prediction);
  return found;
}

TEST(Roofline, IsTheLongestOfThreeTimes) {
  for (const LimitRow& row : limitTable()) {
    SCOPED_TRACE(row.what);
    CompileOptions options;
    options.backward = row.backward;
    options.arch = row.arch;
    const auto plans = plan(Module::fromOp(row.spec), options);
    const auto found =
        limitsOf(plans, row.spec.op == "attention" ? "attention" : plans.at(0).family);
    ASSERT_EQ(found.size(), row.kernels.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto& [microseconds, by] = row.kernels[i];
      EXPECT_NEAR(found[i]->rooflineMicroseconds, microseconds, 1e-6 * microseconds) << i;
      EXPECT_EQ(found[i]->rooflineLimit, by) << i;
    }
  }
}

/// 100 exponentials take longer than the 8 bytes of their element, two do not.
TEST(Roofline, ExponentialsOfRowsCountWhereTheyTakeLonger) {
  for (const int count : {2, 100}) {
    std::string text = "func.func @f(%v0: tensor<65536x128xf32>) -> tensor<65536x128xf32> {\n";
    for (int i = 0; i < count; ++i)
      text += "  %v" + std::to_string(i + 1) + " = math.exp %v" + std::to_string(i) +
              " : tensor<65536x128xf32>\n";
    text += "  return %v" + std::to_string(count) + " : tensor<65536x128xf32>\n}\n";
    const Prediction found = plan(Module::parse(text)).at(0).best.at(0).prediction;
    const double elements = 65536.0 * 128;
    const double expected = count == 2 ? elements * 8 / kBytes : elements * count / kExponentials;
    EXPECT_NEAR(found.rooflineMicroseconds, expected, 1e-6 * expected);
    EXPECT_EQ(found.rooflineLimit, count == 2 ? "bytes" : "exponentials");
    EXPECT_GT(found.microseconds, found.rooflineMicroseconds);
  }
}

TEST(Roofline, OfKernelsTogetherWhatTakesMostOfTheirTimeIsTheLimit) {
  using model::Roofline;
  const auto all = model::rooflineOf({Roofline{5, 1, 2}, Roofline{3, 4, 1}, Roofline{1, 2, 3}});
  EXPECT_DOUBLE_EQ(all.microseconds, 12);
  EXPECT_EQ(all.limit, "bytes");
  const auto other = model::rooflineOf({Roofline{5, 1, 2}, Roofline{3, 4, 1}, Roofline{1, 4, 3}});
  EXPECT_DOUBLE_EQ(other.microseconds, 13);
  EXPECT_EQ(other.limit, "tensor cores");
  EXPECT_EQ(model::rooflineOf(std::vector<Roofline>()).limit, "bytes");
}

} // namespace
