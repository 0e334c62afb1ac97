// Kernels of attention are chosen for about as many queries and keys as a call has: a schedule for
// a thousand would do a hundred times the work of one query and four keys.
#include "test/torch/Helpers.h"

#include <regex>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

class AttentionSizes : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("KILN_FIRST_CHECK", "0", 1);
    at::manual_seed(1);
    enable(strictOnCpu());
  }
  void TearDown() override {
    ::unsetenv("KILN_FIRST_CHECK");
    disable();
  }
};

/// Of [2, 2, queries, 24] with as many keys.
void call(std::int64_t queries, std::int64_t keys) {
  const Tensor q = at::randn({2, 2, queries, 24}), k = at::randn({2, 2, keys, 24});
  const Tensor found = at::scaled_dot_product_attention(q, k, k);
  const Guard off(Mode::off);
  const Tensor wide = k.to(at::kDouble);
  const Tensor exact = at::scaled_dot_product_attention(q.to(at::kDouble), wide, wide);
  EXPECT_LT((found.to(at::kDouble) - exact).abs().max().item<double>(), 1e-4);
}

/// That the process has compiled so far.
int compiled() {
  std::smatch found;
  const std::string text = report();
  const bool is = std::regex_search(text, found, std::regex("stores, ([0-9]+) compiled"));
  return is ? std::stoi(found[1]) : 0;
}

TEST_F(AttentionSizes, ChooseTheKernel) {
  const int before = compiled();
  call(300, 300);
  EXPECT_EQ(compiled(), before + 1);
  call(1, 4); // tiles of so many are not what fits 300
  EXPECT_EQ(compiled(), before + 2);
  call(2, 4);
  call(260, 310); // about as many as before
  EXPECT_EQ(compiled(), before + 2);
}

/// Whoever came first: both are of one class, whose kernel is the same for either.
TEST_F(AttentionSizes, OfOneClassDoNotDependOnWhoWasFirst) {
  const auto scheduleAfter = [](std::int64_t first, std::int64_t second) {
    enable(strictOnCpu()); // anew
    const Tensor q = at::randn({1, 1, first, 40}), other = at::randn({1, 1, second, 40});
    at::scaled_dot_product_attention(q, q, q);
    at::manual_seed(7);
    const Tensor x = at::randn({1, 1, 150, 40});
    const Tensor made = at::scaled_dot_product_attention(x, x, x);
    at::scaled_dot_product_attention(other, other, other);
    return made;
  };
  EXPECT_TRUE(at::equal(scheduleAfter(129, 160), scheduleAfter(160, 129)));
}

} // namespace
