// Sums through memory that the GPUs of one machine share, where there is a GPU for each rank; and
// what is refused anywhere.
#include "test/dist/Ranks.h"
#include "test/dist/Toys.h"

#include "kiln/dist/sharded_optimizer.h"
#include "kiln/torch.h"

#include <filesystem>
#include <fmt/format.h>

namespace kiln::dist {

namespace {

using at::Tensor;

Tensor numbersOf(int rank, std::int64_t count, at::ScalarType dtype) {
  torch::manual_seed(1 + std::uint64_t(rank));
  return torch::randn({count}).to(dtype);
}

std::vector<Tensor> gradientsBy(const std::shared_ptr<Group>& group, Mode mode) {
  torch::manual_seed(0);
  ToyModel model;
  model.to(group->device());
  DataParallel parallel(model, group, {.mode = mode});
  std::vector<Tensor> all;
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    const Tensor x = numbersOf(10 * step + group->rank(), 40, at::kFloat).view({4, 10});
    model.forward(x.to(group->device())).square().sum().backward();
    for (const Tensor& one : trainable(model))
      all.push_back(one.grad().clone());
  }
  return all;
}

} // namespace

class Peers : public testing::Test {
 protected:
  void SetUp() override {
    if (!haveGpus())
      GTEST_SKIP() << "needs a GPU for each of several ranks";
    enable();
  }
  void TearDown() override { disable(); }
  static GroupOptions byPeers() {
    return {.device = ownGpu(), .peerBytes = 1 << 20, .peersAlways = true};
  }
};

TEST_F(Peers, SumsAreInTheOrderOfRanks) {
  const auto group = startWith(byPeers());
  EXPECT_EQ(group->peerBytes(), 1 << 20);
  for (const std::int64_t count : {1, 3, 1000, 1 << 18, 1 << 20}) // of which the last is NCCL's
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      Tensor exact = numbersOf(0, count, dtype).to(at::kFloat), magnitude = exact.abs();
      for (int rank = 1; rank < group->size(); ++rank) {
        const Tensor added = numbersOf(rank, count, dtype).to(at::kFloat);
        exact += added;
        magnitude += added.abs();
      }
      // NCCL rounds each partial sum to the tensor's type, by at most half a unit in its last
      // place, and the exact one is a sum of fp32 itself. The last partial sum is the result.
      const double rounding = dtype == at::kFloat ? 0x1p-24 : 0x1p-8;
      const Tensor allowed = 2 * rounding * (exact.abs() + (group->size() - 2) * magnitude);
      for (int time = 0; time < 4; ++time) {
        const Tensor tensor = numbersOf(group->rank(), count, dtype).to(group->device());
        group->allReduce(tensor, Sum::plain, time % 2 == 0 ? Order::beside : Order::inStream)
            .wait();
        const bool isPeers = std::int64_t(tensor.nbytes()) <= group->peerBytes();
        const Tensor found = tensor.cpu(), error = (found.to(at::kFloat) - exact).abs();
        EXPECT_TRUE(isPeers ? at::equal(found, exact.to(dtype))
                            : (error <= allowed).all().item<bool>())
            << count << " " << dtype;
      }
    }
}

TEST_F(Peers, GradientsAreThoseByNccl) {
  GroupOptions byNccl = byPeers();
  byNccl.peerBytes = 0;
  for (const Mode mode : {Mode::perParameter, Mode::overlapped}) {
    const auto expected = gradientsBy(startWith(byNccl), mode),
               found = gradientsBy(startWith(byPeers()), mode);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-5, 1e-6)) << i;
  }
}

/// Buffers by copy engines.
class Copies : public Peers {
 protected:
  static GroupOptions byCopies() {
    GroupOptions options = byPeers();
    options.peerBytes = 0;
    options.copyEngines = true;
    return options;
  }
};

TEST_F(Copies, SumsOfPartsAreInTheOrderOfRanks) {
  const auto group = startWith(byCopies());
  const int size = group->size(), rank = group->rank();
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const std::int64_t each : {1, 64, 1000, 1 << 20}) {
      const std::int64_t count = each * size;
      const Tensor buffer = group->buffer(count, dtype);
      ASSERT_TRUE(group->goesByCopyEngines(buffer));
      EXPECT_EQ(buffer.abs().sum().item<double>(), 0);
      Tensor exact = numbersOf(0, count, dtype).to(at::kFloat);
      for (int other = 1; other < size; ++other)
        exact += numbersOf(other, count, dtype).to(at::kFloat);
      exact = (exact * (1.0F / float(size))).to(dtype);
      for (int time = 0; time < 4; ++time) { // both lanes, twice
        const Tensor mine = numbersOf(rank, count, dtype).to(group->device());
        std::vector<Group::Part> parts;
        if (time % 2 == 0) // in three pieces that lie elsewhere
          for (const auto& [from, to] :
               {std::pair(std::int64_t(0), count / 3), std::pair(count / 3, count / 2),
                std::pair(count / 2, count)})
            parts.push_back({mine.slice(0, from, to).clone(), from});
        buffer.copy_(time % 2 == 0 ? at::full_like(mine, 7) : mine);
        group->sumOfParts(buffer, parts, 1.0 / size).wait();
        EXPECT_TRUE(at::equal(buffer.cpu(), exact)) << dtype << " " << count << " " << time;
        const Tensor part = at::empty({each}, buffer.options());
        buffer.copy_(mine);
        group->sumOfParts(buffer, {}, 1.0 / size, part).wait();
        EXPECT_TRUE(at::equal(part.cpu(), exact.slice(0, rank * each, (rank + 1) * each)));
      }
    }
}

TEST_F(Copies, GatherAndWhatIsNoBufferGoAsBefore) {
  const auto group = startWith(byCopies());
  const Tensor buffer = group->buffer(1000 * group->size(), at::kFloat);
  for (int time = 0; time < 3; ++time) {
    const Tensor mine = buffer.slice(0, 1000 * group->rank(), 1000 * (group->rank() + 1));
    mine.fill_(10 * time + group->rank());
    group->allGather(buffer, mine).wait();
    for (int rank = 0; rank < group->size(); ++rank)
      EXPECT_EQ(buffer[1000 * rank + 999].item<float>(), float(10 * time + rank));
  }
  EXPECT_FALSE(group->goesByCopyEngines(group->buffer(8, at::kDouble)));
  const Tensor other = at::ones({1000}, at::TensorOptions().device(group->device()));
  EXPECT_FALSE(group->goesByCopyEngines(other));
  EXPECT_THROW(group->sumOfParts(other, {}, 1), Error);
  group->allReduce(other).wait();
  EXPECT_EQ(other[999].item<float>(), float(group->size()));
}

TEST_F(Copies, GradientsAreThoseByNccl) {
  GroupOptions byNccl = byCopies();
  byNccl.copyEngines = false;
  for (const Mode mode : {Mode::perParameter, Mode::flat, Mode::bucketed, Mode::overlapped}) {
    const auto expected = gradientsBy(startWith(byNccl), mode),
               found = gradientsBy(startWith(byCopies()), mode);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-5, 1e-6)) << i;
  }
}

TEST_F(Copies, ShardedWeightsAreThoseByNccl) {
  GroupOptions byNccl = byCopies();
  byNccl.copyEngines = false;
  const auto trained = [](const std::shared_ptr<Group>& group) {
    torch::manual_seed(0);
    ToyModel model;
    model.to(group->device());
    DataParallel parallel(model, group, {.sharded = true});
    ShardedOptimizer optimizer(parallel, trainable(model), torch::optim::AdamWOptions(1e-2));
    for (int step = 0; step < 5; ++step) {
      const Tensor x = numbersOf(10 * step + group->rank(), 40, at::kFloat).view({4, 10});
      model.forward(x.to(group->device())).square().sum().backward();
      optimizer.step();
    }
    std::vector<Tensor> all;
    for (const Tensor& one : trainable(model))
      all.push_back(one.detach().clone());
    return all;
  };
  const auto expected = trained(startWith(byNccl)), found = trained(startWith(byCopies()));
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-4, 1e-5)) << i;
}

TEST_F(Copies, AreTheChoiceOfRanksThatReachEachOther) {
  GroupOptions options = byCopies();
  options.copyEngines = std::nullopt;
  const auto group = startWith(options);
  const Tensor buffer = group->buffer(1 << 18, at::kFloat);
  EXPECT_FALSE(group->goesByCopyEngines(group->buffer((1 << 18) - 1, at::kFloat)));
  const std::string mine = group->goesByCopyEngines(buffer) ? "copies" : "nccl";
  for (const std::string& other : group->gather(mine))
    EXPECT_EQ(other, mine);
}

TEST_F(Peers, WhichSizesGoThereIsMeasured) {
  GroupOptions options = byPeers();
  options.peersAlways = false;
  const auto group = startWith(options);
  EXPECT_LE(group->peerBytes(), 1 << 20);
  for (const std::string& other : group->gather(std::to_string(group->peerBytes())))
    EXPECT_EQ(other, std::to_string(group->peerBytes())) << "all ranks agree";
}

TEST(PeersOfCpus, AreRefused) {
  if (ranks()->size() == 1)
    GTEST_SKIP() << "one rank has no peers";
  for (const auto& [bytes, copies, expected] :
       {std::tuple(1024, false,
                   "peerBytes: memory that ranks share is that of GPUs, and tensors "
                   "are on cpu; leave it out"),
        std::tuple(0, true, "copyEngines: memory that ranks share is that of GPUs"),
        std::tuple(-1, false, "peerBytes = -1; 0 or more")})
    try {
      startWith({.peerBytes = bytes, .copyEngines = copies});
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::input);
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
}

} // namespace kiln::dist
