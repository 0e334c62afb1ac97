// The order that barriers and shuffles make, without kernels around it.
#include "codegen/host/SharedMemory.h"

#include <gtest/gtest.h>

namespace kiln::test {
namespace {

class Shared : public testing::Test {
 protected:
  Shared() { memory.begin(); }
  bool read(int thread, int at = 0) { return memory.read(thread, memory.data() + at, 4); }
  bool write(int thread, int at = 0) { return memory.write(thread, memory.data() + at, 4); }

  SharedMemory memory{64, 128};
};

TEST_F(Shared, AThreadNeverRacesWithItself) {
  EXPECT_TRUE(write(5));
  EXPECT_TRUE(read(5));
  EXPECT_TRUE(write(5));
}

TEST_F(Shared, ShufflesOrderTheLanesOfOneWarp) {
  EXPECT_TRUE(write(5));
  memory.synchronize(0b0001);
  EXPECT_TRUE(read(6));
  EXPECT_FALSE(read(32));
}

TEST_F(Shared, BarriersOrderTheirWarpsOnly) {
  EXPECT_TRUE(write(0));
  memory.synchronize(0b0011);
  EXPECT_TRUE(read(40));
  EXPECT_FALSE(read(64));
}

TEST_F(Shared, OrderIsPassedOn) {
  EXPECT_TRUE(write(0));
  memory.synchronize(0b0011);
  memory.synchronize(0b0110);
  EXPECT_TRUE(read(64)); // warp 0 -> warp 1 -> warp 2
  EXPECT_FALSE(read(96));
}

TEST_F(Shared, OrderIsNotPassedBack) {
  memory.synchronize(0b0011);
  EXPECT_TRUE(write(0));
  memory.synchronize(0b0110);
  EXPECT_FALSE(read(64));
}

TEST_F(Shared, ReadersOfAllWarpsAreRemembered) {
  EXPECT_TRUE(write(0));
  memory.synchronize(0b1111);
  EXPECT_TRUE(read(96));
  for (int lane = 0; lane < 32; ++lane)
    EXPECT_TRUE(read(lane));
  memory.synchronize(0b0001);
  EXPECT_FALSE(write(0)); // thread 96 may still read
}

TEST_F(Shared, ASecondReaderOfTheSameWarpIsRemembered) {
  EXPECT_TRUE(write(0));
  memory.synchronize(0b1111);
  EXPECT_TRUE(read(1));
  EXPECT_TRUE(read(2));
  EXPECT_FALSE(write(2));
  EXPECT_FALSE(write(1));
}

TEST_F(Shared, BlocksHaveNothingToDoWithEachOther) {
  EXPECT_TRUE(write(0));
  EXPECT_TRUE(read(0));
  memory.begin();
  EXPECT_TRUE(write(77));
  memory.begin();
  EXPECT_FALSE(read(77)); // not written in this block
}

TEST_F(Shared, NeighbouringBytesAreSeparate) {
  EXPECT_TRUE(write(0, 0));
  EXPECT_TRUE(write(32, 4));
  EXPECT_TRUE(memory.write(64, memory.data() + 8, 1));
  EXPECT_TRUE(memory.write(65, memory.data() + 9, 1));
}

} // namespace
} // namespace kiln::test
