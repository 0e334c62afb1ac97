// What ranks do together, against what one process computes of all ranks' numbers.
#include "test/dist/Ranks.h"

#include <ATen/ATen.h>

namespace kiln::dist {

namespace {

using at::Tensor;

/// Of another rank, too, as all draw from the same seed.
Tensor drawn(int rank, at::IntArrayRef sizes, at::ScalarType dtype) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(1000 + rank);
  return at::randn(sizes, generator).to(dtype);
}

} // namespace

TEST(Group, SumsAndMovesTensorsOfAllDtypes) {
  const auto group = ranks();
  const int n = group->size(), rank = group->rank();
  for (const at::ScalarType dtype :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong}) {
    for (const std::int64_t count : {1, 7, 1024}) {
      Tensor sum = at::zeros({n * count}, dtype);
      for (int r = 0; r < n; ++r)
        sum += at::round(4 * drawn(r, {n * count}, at::kFloat)).to(dtype); // exact in any order
      const Tensor mine = at::round(4 * drawn(rank, {n * count}, at::kFloat)).to(dtype);

      for (const Order order : {Order::beside, Order::inStream}) {
        const Tensor all = mine.clone();
        group->allReduce(all, Sum::plain, order).wait();
        EXPECT_TRUE(at::equal(all, sum)) << dtype;
      }

      const Tensor part = at::empty({count}, dtype);
      group->reduceScatter(part, mine).wait();
      EXPECT_TRUE(at::equal(part, sum.slice(0, rank * count, (rank + 1) * count))) << dtype;

      const Tensor whole = at::empty({n * count}, dtype);
      group->allGather(whole, part).wait();
      EXPECT_TRUE(at::equal(whole, sum)) << dtype;

      const Tensor swapped = at::empty({n * count}, dtype);
      group->allToAll(swapped, mine).wait();
      for (int r = 0; r < n; ++r)
        EXPECT_TRUE(at::equal(swapped.slice(0, r * count, (r + 1) * count),
                              at::round(4 * drawn(r, {n * count}, at::kFloat))
                                  .to(dtype)
                                  .slice(0, rank * count, (rank + 1) * count)))
            << dtype;

      const Tensor sent = rank == n - 1 ? mine.clone() : at::zeros_like(mine);
      group->broadcast(sent, n - 1).wait();
      EXPECT_TRUE(at::equal(sent, at::round(4 * drawn(n - 1, {n * count}, at::kFloat)).to(dtype)));
    }
  }
}

TEST(Group, PartsOfAWholeMayBeWrittenInPlace) {
  const auto group = ranks();
  const int n = group->size(), rank = group->rank();
  Tensor whole = at::zeros({n * 5});
  const Tensor mine = whole.slice(0, rank * 5, rank * 5 + 5);
  mine.fill_(rank + 1);
  group->allGather(whole, mine).wait();
  EXPECT_TRUE(at::equal(whole, (at::arange(n) + 1).repeat_interleave(5).to(at::kFloat)));
  group->reduceScatter(mine, whole).wait();
  EXPECT_TRUE(at::equal(mine, at::full({5}, float(n * (rank + 1)))));
}

TEST(Group, PartsOfSumsAreAddedInTheOrderOfRanks) {
  const auto group = ranks();
  const int n = group->size(), rank = group->rank();
  for (const at::ScalarType dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
    Tensor exact = drawn(0, {n * 333}, dtype).to(at::kFloat);
    for (int r = 1; r < n; ++r)
      exact += drawn(r, {n * 333}, dtype).to(at::kFloat);
    const Tensor part = at::empty({333}, dtype);
    group->reduceScatter(part, drawn(rank, {n * 333}, dtype)).wait();
    EXPECT_TRUE(at::equal(part, exact.slice(0, rank * 333, (rank + 1) * 333).to(dtype))) << dtype;
  }
}

TEST(Group, NumbersAndTextsOfTheHost) {
  const auto group = ranks();
  const int n = group->size(), rank = group->rank();
  EXPECT_EQ(group->sum(rank + 0.5), n * (n - 1) / 2.0 + n * 0.5);
  EXPECT_EQ(group->largest(-rank), 0);
  const auto texts = group->gather(std::string(std::size_t(rank), 'x') + std::string("\0y", 2));
  ASSERT_EQ(int(texts.size()), n);
  for (int r = 0; r < n; ++r)
    EXPECT_EQ(texts[std::size_t(r)], std::string(std::size_t(r), 'x') + std::string("\0y", 2));
}

TEST(Group, AgreesOneCallLater) {
  const auto group = ranks();
  if (group->size() == 1)
    GTEST_SKIP() << "one rank agrees with itself at once";
  for (int i = 0; i < 5; ++i) {
    const bool said = group->agreed(i == 2 && group->rank() == group->size() - 1);
    EXPECT_EQ(said, i == 3) << i;
  }
}

TEST(Group, RefusesTensorsThatDoNotFit) {
  const auto group = ranks();
  EXPECT_THROW(group->allReduce(Tensor()), Error);
  EXPECT_THROW(group->allReduce(at::zeros({4, 4}).t().slice(0, 0, 2)), Error);
  EXPECT_THROW(group->allReduce(at::empty({2}, at::kMeta)), Error);
  EXPECT_THROW(group->allGather(at::zeros({group->size() * 3 + 1}), at::zeros({3})), Error);
  EXPECT_THROW(group->reduceScatter(at::zeros({3}, at::kDouble), at::zeros({group->size() * 3})),
               Error);
}

TEST(Group, BuffersOfCpusAreTensorsAsAll) {
  const Tensor buffer = ranks()->buffer(8 * ranks()->size(), at::kFloat);
  EXPECT_EQ(buffer.numel(), 8 * ranks()->size());
  EXPECT_EQ(buffer.abs().sum().item<float>(), 0);
  EXPECT_FALSE(ranks()->goesByCopyEngines(buffer));
  EXPECT_THROW(ranks()->sumOfParts(buffer, {}, 1), Error);
  buffer.fill_(1);
  ranks()->allReduce(buffer).wait();
  EXPECT_EQ(buffer[7].item<float>(), float(ranks()->size()));
}

TEST(Group, NothingIsMovedForNoElements) {
  ranks()->allReduce(at::zeros({0})).wait();
  ranks()->broadcast(at::zeros({0, 3})).wait();
}

} // namespace kiln::dist
