// References by several threads: what each computes is what one alone would.
#include "dialect/Reference.h"
#include "dialect/Ranges.h"
#include "test/unit/Derived.h"

#include <atomic>
#include <random>
#include <stdexcept>

using namespace kiln;
using namespace kiln::test;
using ir::Tensor64;

TEST(Ranges, TakeEachNumberOnceInOrder) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200; ++i) {
    const auto count = static_cast<std::int64_t>(random() % 3000);
    const std::int64_t ranges = ir::rangesOf(count, static_cast<std::int64_t>(random() % 40));
    EXPECT_GE(ranges, 1);
    std::vector<std::atomic<int>> taken(count);
    std::vector<std::int64_t> ends(ranges, -1), begins(ranges, -1);
    ir::inRanges(count, ranges, [&](std::int64_t range, std::int64_t begin, std::int64_t end) {
      begins[range] = begin, ends[range] = end;
      for (; begin < end; ++begin)
        ++taken[begin];
    });
    for (const std::atomic<int>& times : taken)
      EXPECT_EQ(times, 1);
    EXPECT_EQ(begins[0], 0);
    EXPECT_EQ(ends[ranges - 1], count);
    for (std::int64_t range = 1; range < ranges; ++range)
      EXPECT_EQ(begins[range], ends[range - 1]);
  }
}

TEST(Ranges, AreTheSameOnEveryHost) {
  EXPECT_EQ(ir::rangesOf(0, 10), 1);
  EXPECT_EQ(ir::rangesOf(99, 10), 9);
  EXPECT_EQ(ir::rangesOf(1 << 20, 10), 64);
  EXPECT_EQ(ir::rangesOf(1 << 20, 0), 64);
}

TEST(Ranges, TheFirstThatThrowsIsTheCallersWhenAllHaveEnded) {
  for (int i = 0; i < 50; ++i) {
    std::atomic<int> ended = 0;
    try {
      ir::inRanges(64, 64, [&](std::int64_t range, std::int64_t, std::int64_t) {
        ++ended;
        if (range % 7 == 5)
          throw std::runtime_error(std::to_string(range));
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "5");
    }
    EXPECT_EQ(ended, 64);
  }
}

/// Neighbours are taken together; a sum's elements come in order.
TEST(Reduced, ElementsGoToTheirPlaces) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 100; ++i) {
    llvm::SmallVector<std::int64_t> shape, dims, strides;
    for (std::size_t d = 0, rank = 1 + random() % 5; d < rank; ++d) {
      shape.push_back(static_cast<std::int64_t>(1 + random() % (i == 0 ? 1 : 6)));
      if (random() % 2)
        dims.push_back(static_cast<std::int64_t>(d));
    }
    if (i == 1) // enough for threads
      shape = {700, 3, 500}, dims = {2};
    const ir::Reduced reduced(shape, dims);
    strides.assign(shape.size(), 0);
    std::int64_t places = 1;
    for (std::size_t d = shape.size(); d-- > 0;)
      if (!llvm::is_contained(dims, static_cast<std::int64_t>(d))) {
        strides[d] = places;
        places *= shape[d];
      }
    std::vector<std::vector<std::int64_t>> found(places);
    reduced.each(
        [&](std::int64_t place, std::int64_t element) { found[place].push_back(element); });
    std::vector<std::vector<std::int64_t>> wanted(places);
    for (std::int64_t e = 0, n = ir::makeTensor64(shape).size(); e < n; ++e) {
      std::int64_t place = 0, rest = e;
      for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d])
        place += rest % shape[d] * strides[d];
      wanted[place].push_back(e);
      EXPECT_EQ(reduced.placeOf(e), place);
    }
    EXPECT_EQ(found, wanted);
  }
}

namespace {

constexpr std::int64_t kBatches = 6, kHeads = 4, kRows = 64, kWidth = 32;

/// An attention and its gradients, of one tensor of queries, keys and values.
std::vector<Tensor64> attention(std::int64_t batches, const std::vector<Tensor64>& inputs) {
  const std::string rows = fmt::format("tensor<{}x{}x{}x{}xf32>", batches, kHeads, kRows, kWidth),
                    row = fmt::format("tensor<{}x{}x{}xf32>", batches, kHeads, kRows),
                    bias = fmt::format("tensor<1x{}x{}x{}xf32>", kHeads, kRows, kRows);
  Context context;
  auto module = context.parse(fmt::format(
      "func.func @f(%q: {0}, %do: {0}, %delta: {1}, %b: {2}) -> ({0}, {1}, {0}, {0}, {0}, {2}) {{\n"
      "  %o, %lse = kiln.attention %q, %q, %q bias %b {{causal = #kiln.causal<last>}}\n"
      "    : ({0}, {0}, {0}, {2}) -> ({0}, {1})\n"
      "  %dq, %dk, %dv, %db = kiln.attention_backward %do, %delta, %lse, %q, %q, %q bias %b\n"
      "    {{causal = #kiln.causal<last>}}\n"
      "    : ({0}, {1}, {1}, {0}, {0}, {0}, {2}) -> query {0} key {0} value {0} bias {2}\n"
      "  return %o, %lse, %dq, %dk, %dv, %db : {0}, {1}, {0}, {0}, {0}, {2}\n}}\n",
      rows, row, bias));
  auto function = module->lookupSymbol<mlir::func::FuncOp>("f");
  auto results = ir::evaluate(function.getBody().front(), inputs);
  EXPECT_TRUE(succeeded(results));
  return std::move(*results);
}

Tensor64 drawn(llvm::ArrayRef<std::int64_t> shape, std::mt19937_64& random) {
  Tensor64 tensor = ir::unsetTensor64(shape);
  std::normal_distribution<double> normal;
  for (double& value : tensor.data)
    value = normal(random);
  return tensor;
}

Tensor64 batchOf(const Tensor64& all, std::int64_t batch) {
  Tensor64 part;
  part.shape = all.shape;
  part.shape[0] = 1;
  const std::int64_t size = all.size() / kBatches;
  part.data.assign(all.data.begin() + batch * size, all.data.begin() + (batch + 1) * size);
  return part;
}

} // namespace

/// All batches are enough for several threads, one is not: the same to the last bit, but for the
/// gradient of the bias, which is added up over batches.
TEST(AttentionReference, HeadsSideBySideAreAsAlone) {
  std::mt19937_64 random(7);
  std::vector<Tensor64> inputs;
  for (int i = 0; i < 2; ++i)
    inputs.push_back(drawn({kBatches, kHeads, kRows, kWidth}, random));
  inputs.push_back(drawn({kBatches, kHeads, kRows}, random));
  inputs.push_back(drawn({1, kHeads, kRows, kRows}, random));
  const std::vector<Tensor64> all = attention(kBatches, inputs);
  const std::vector<Tensor64> again = attention(kBatches, inputs);
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(all[i].data, again[i].data) << i;
  Tensor64 dBias = ir::makeTensor64(inputs[3].shape);
  for (std::int64_t batch = 0; batch < kBatches; ++batch) {
    std::vector<Tensor64> own;
    for (int i = 0; i < 3; ++i)
      own.push_back(batchOf(inputs[i], batch));
    own.push_back(inputs[3]);
    const std::vector<Tensor64> alone = attention(1, own);
    for (std::size_t i = 0; i + 1 < all.size(); ++i)
      EXPECT_EQ(batchOf(all[i], batch).data, alone[i].data) << batch << " " << i;
    for (std::int64_t i = 0; i < dBias.size(); ++i)
      dBias.data[i] += alone.back().data[i];
  }
  for (std::int64_t i = 0; i < dBias.size(); ++i)
    EXPECT_NEAR(all.back().data[i], dBias.data[i], 1e-12);
}
