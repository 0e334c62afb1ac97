// Sums through memory that the GPUs of one machine share, where there is a GPU for each rank; and
// what is refused anywhere.
#include "test/dist/Ranks.h"
#include "test/dist/Toys.h"

#include "kiln/torch.h"

#include <filesystem>
#include <fmt/format.h>

namespace kiln::dist {

namespace {

using at::Tensor;

/// Of all ranks, by a file of their own.
std::shared_ptr<Group> startWith(GroupOptions options) {
  const auto mine = std::filesystem::temp_directory_path() / fmt::format("kiln_peers_{}", getpid());
  options.file = ranks()->gather(mine.string())[0];
  options.limit = std::chrono::seconds(20);
  if (ranks()->rank() == 0)
    std::filesystem::remove(options.file);
  ranks()->barrier();
  return Group::start(ranks()->place(), options);
}

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
    if (ranks()->size() == 1 || at::getNumGPUs() < std::size_t(ranks()->size()))
      GTEST_SKIP() << "needs a GPU for each of several ranks";
    enable();
  }
  void TearDown() override { disable(); }
  static GroupOptions byPeers() {
    return {.device = at::Device(at::kCUDA, c10::DeviceIndex(ranks()->place().localRank)),
            .peerBytes = 1 << 20,
            .peersAlways = true};
  }
};

TEST_F(Peers, SumsAreInTheOrderOfRanks) {
  const auto group = startWith(byPeers());
  EXPECT_EQ(group->peerBytes(), 1 << 20);
  for (const std::int64_t count : {1, 3, 1000, 1 << 18, 1 << 20}) // of which the last is NCCL's
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      Tensor exact = numbersOf(0, count, dtype).to(at::kFloat);
      for (int rank = 1; rank < group->size(); ++rank)
        exact += numbersOf(rank, count, dtype).to(at::kFloat);
      for (int time = 0; time < 3; ++time) {
        const Tensor tensor = numbersOf(group->rank(), count, dtype).to(group->device());
        group->allReduce(tensor).wait();
        const bool isPeers = std::int64_t(tensor.nbytes()) <= group->peerBytes();
        EXPECT_TRUE(isPeers ? at::equal(tensor.cpu(), exact.to(dtype))
                            : at::allclose(tensor.cpu(), exact.to(dtype), 1e-2, 1e-2))
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
  for (const auto& [bytes, expected] : {std::pair(1024, "tensors are on cpu; leave it 0"),
                                        std::pair(-1, "peerBytes = -1; 0 or more")})
    try {
      startWith({.peerBytes = bytes});
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::input);
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
}

} // namespace kiln::dist
