// Kernels of attention are chosen for about as many queries and keys as a call has: a schedule for
// a thousand would do a hundred times the work of one query and four keys.
#include "test/torch/Helpers.h"

#include <cmath>
#include <regex>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

class AttentionSizes : public StrictOnCpu {};

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

/// By their own sizes the two would be chosen differently. They are of one class, and of keys that
/// differ by a scale which is the same in the text: whoever is first, both have one kernel.
TEST_F(AttentionSizes, OfOneClassDoNotDependOnWhoIsFirst) {
  const double scale = 0.1581138830, next = std::nextafter(scale, 1.0);
  const auto attended = [](std::int64_t batch, double scale) {
    const Tensor x = at::randn({batch, 1, 320, 40});
    at::scaled_dot_product_attention(x, x, x, {}, 0.0, false, scale);
  };
  const int before = compiled();
  attended(15, scale);
  EXPECT_EQ(compiled(), before + 1);
  attended(8, next);
  EXPECT_EQ(compiled(), before + 1);
}

} // namespace
