// Without a GPU every door to the device refuses in words, and nothing crashes.
#include "codegen/backend/Executable.h"
#include "codegen/backend/Timer.h"
#include "test/backend/Helpers.h"
#include "test/backend/Plans.h"

using namespace kiln;
using namespace kiln::test;

namespace {

class NoGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (whyNoGpu().empty())
      GTEST_SKIP() << "there is a GPU here";
  }
};

TEST_F(NoGpu, SaysWhichIsMissing) {
  std::string why = whyNoGpu();
  EXPECT_TRUE(
      contains(why, "the NVIDIA driver (libcuda.so.1 of version 525 or newer) is missing") ||
      contains(why, "shows no GPU") || contains(why, "does not start"))
      << why;
  EXPECT_EQ(whyNoGpu(), why); // the search may be repeated
}

TEST_F(NoGpu, EveryDoorRefuses) {
  EXPECT_HAS(errorOf(ErrorKind::unavailable, [] { Driver::get(); }), "driver");
  EXPECT_HAS(errorOf(ErrorKind::unavailable, [] { DeviceBuffer(16); }), "driver");
  EXPECT_HAS(errorOf(ErrorKind::unavailable, [] { Stream(); }), "driver");
  EXPECT_HAS(errorOf(ErrorKind::unavailable, [] { Event(); }), "driver");
  EXPECT_HAS(errorOf(ErrorKind::unavailable, [] { LoadedCubin({}); }), "driver");
  EXPECT_HAS(errorOf(ErrorKind::unavailable, [] { timeGraph({}); }), "driver");
}

TEST(LoadedProgram, ChecksTheCubinFirst) {
  EXPECT_HAS(errorOf(ErrorKind::input, [] { LoadedProgram(rowPlan(), {}); }), "not a cubin");
}

TEST(Timer, Median) {
  EXPECT_EQ(medianOf({}), 0);
  EXPECT_EQ(medianOf({3}), 3);
  EXPECT_EQ(medianOf({9, 1, 3}), 3);
  EXPECT_EQ(medianOf({4, 1, 3, 2}), 2.5);
  EXPECT_HAS(errorOf(ErrorKind::input, [] { timeGraph({}, {.launches = 0}); }),
             "at least 1 launch");
}

} // namespace
