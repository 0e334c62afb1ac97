// Stores to the memory of another block on the host target: the kernel of HandOver.h is right, and
// each step that it could leave out is reported.
#include "test/backend/HandOver.h"
#include "test/host/Harness.h"

#include <gmock/gmock.h>

namespace kiln::test {
namespace {

std::vector<float> handOver(const std::string& text) {
  std::vector<float> x = handOverInput(), y(x.size(), -1.0f);
  const Buffer input{x.data(), handOverSizes(), {}}, output{y.data(), handOverSizes(), {}};
  HostProgram(handOverPlan(), text).run(std::span(&input, 1), std::span(&output, 1));
  return y;
}

TEST(HandOver, EachRoundArrives) {
  EXPECT_EQ(handOver(handOverText), handedOver(handOverInput()));
}

class HandOverOmissions : public testing::TestWithParam<Omission> {};

TEST_P(HandOverOmissions, IsReported) {
  const std::string text = replaced(handOverText, GetParam().step, GetParam().instead);
  EXPECT_THAT(errorOf(ErrorKind::verification, [&] { handOver(text); }),
              testing::HasSubstr(GetParam().message));
}

const Omission omissions[] = {
    {"WaitUntilFull", "mbarrier_wait_for_cluster(full, round % 2);", "", "shared memory + "},
    {"WaitUntilFree", "mbarrier_wait_for_cluster(free, round % 2 ^ 1);", "",
     "no barrier lies between"},
    {"ReadByTheWholeWarp", "warp_barrier();  // read", "", "no barrier lies between"},
    {"ExpectedBytes", "mbarrier_arrive_expecting(full, bytes);",
     "mbarrier_arrive_expecting(full, bytes + 16);", "diverged"},
    {"FenceOfBarriers", "mbarrier_fence();", "", "no mbarrier_fence made known to them"},
    {"MeetingAtTheEnd", "cluster_wait();  // done", "", "may still reach its shared memory"},
    {"Alignment", "store_to_block(handed + thread * 16", "store_to_block(handed + thread * 16 + 4",
     "stores 16 bytes to another block's shared memory + 1012, which is not aligned"},
    {"BlockOfTheCluster", "full, other);", "full, 2);",
     "reaches block 2 of its cluster, which has 2, from 0"},
};
INSTANTIATE_TEST_SUITE_P(Steps, HandOverOmissions, testing::ValuesIn(omissions),
                         [](const auto& info) { return info.param.name; });

} // namespace
} // namespace kiln::test
