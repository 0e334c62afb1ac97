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

/// Copies that thread 0 starts.
class Copies : public Shared {
 protected:
  bool in(int copier, int phase, int at = 0, int thread = 0) {
    return memory.copyIn(thread, copier, phase, 0, memory.data() + at, 16);
  }
  bool out(int copier, int phase, int at = 0, int thread = 0) {
    return memory.copyOut(thread, copier, phase, memory.data() + at, 16);
  }
  bool read(int thread, int at = 0) { return memory.read(thread, memory.data() + at, 16); }
  bool write(int thread, int at = 0) { return memory.write(thread, memory.data() + at, 16); }
  bool acquireAndRead(int copier, int phases, int thread, int at = 0) {
    SharedMemory::Clock clock;
    memory.completeCopies(copier, phases, clock);
    memory.acquire(thread / 32, clock);
    return read(thread, at);
  }

  int first = memory.addCopier();
};

TEST_F(Copies, AreKnownToThoseWhoAwaitedThem) {
  EXPECT_TRUE(in(first, 0));
  EXPECT_FALSE(read(0)); // nor has the thread that started it
  EXPECT_FALSE(write(0));
  EXPECT_TRUE(acquireAndRead(first, 1, 40));
  EXPECT_FALSE(read(64));
  memory.synchronize(0b0110);
  EXPECT_TRUE(read(64)); // from warp 1
}

TEST_F(Copies, OfOneBarrierSayNothingOfAnother) {
  const int other = memory.addCopier();
  EXPECT_TRUE(in(first, 0, 0));
  EXPECT_TRUE(in(other, 0, 16));
  EXPECT_TRUE(acquireAndRead(other, 1, 40, 16));
  EXPECT_FALSE(read(40, 0));
}

TEST_F(Copies, OverwriteNothingThatIsInUse) {
  EXPECT_TRUE(in(first, 0));
  EXPECT_FALSE(in(first, 1)); // the first may still be on its way
  EXPECT_TRUE(acquireAndRead(first, 1, 40));
  EXPECT_FALSE(in(first, 1, 0, 0)); // thread 0 does not know that 40 has read it
  memory.synchronize(0b0011);
  EXPECT_TRUE(in(first, 1, 0, 0));
}

TEST_F(Copies, SeeWhatWasFenced) {
  EXPECT_TRUE(write(40));
  memory.synchronize(0b0011);
  EXPECT_FALSE(out(first, 0));
  EXPECT_FALSE(in(first, 0));
  memory.fence(1);
  EXPECT_FALSE(out(first, 0)); // the fence has to come before the meeting
  memory.synchronize(0b0011);
  EXPECT_TRUE(out(first, 0));
}

TEST_F(Copies, AThreadMayFenceForOthersBehindABarrier) {
  EXPECT_TRUE(write(40));
  memory.synchronize(0b0011);
  memory.fence(0);
  EXPECT_TRUE(out(first, 0));
}

TEST_F(Copies, OutOfMemoryThatIsWrittenAgainAreAwaited) {
  EXPECT_TRUE(write(0));
  memory.fence(0);
  EXPECT_TRUE(out(first, 0));
  EXPECT_FALSE(write(0));
  EXPECT_TRUE(read(0)); // both read
  memory.completeCopies(first, 1, 0);
  EXPECT_TRUE(write(0));
}

TEST_F(Copies, AreOfOneBlock) {
  EXPECT_TRUE(in(first, 7));
  memory.begin();
  EXPECT_FALSE(read(0)); // never written
  EXPECT_TRUE(write(0));
  const int again = memory.addCopier();
  memory.fence(0);
  EXPECT_TRUE(in(again, 0));
}

TEST_F(Copies, AreAwaitedBeforeABlockEnds) {
  EXPECT_TRUE(memory.mayEnd(0));
  EXPECT_TRUE(in(first, 0));
  EXPECT_FALSE(memory.mayEnd(0));
  EXPECT_TRUE(acquireAndRead(first, 1, 40));
  EXPECT_TRUE(memory.mayEnd(0));
}

TEST(SharedMemoryOfACluster, ABlockEndsAfterWhatReachesIt) {
  SharedMemory memory(64, 32, 2);
  memory.begin();
  memory.reach(0, 1);
  EXPECT_TRUE(memory.mayEnd(0));
  EXPECT_FALSE(memory.mayEnd(1));
  memory.synchronize(0b11);
  EXPECT_TRUE(memory.mayEnd(1));
  EXPECT_TRUE(memory.write(40, 0, memory.data(0), 4));
  EXPECT_FALSE(memory.mayEnd(0));
}

TEST_F(Copies, MayBeMany) {
  for (int i = 0; i < 100; ++i)
    EXPECT_TRUE(in(memory.addCopier(), 0, 16 * (i % 4)) == (i < 4));
  EXPECT_TRUE(acquireAndRead(first + 4, 1, 40, 48));
  EXPECT_FALSE(read(40, 32));
}

TEST_F(Copies, OperandsAreReadByFourWarpsAsOne) {
  const auto multiply = [&](int phase) {
    return memory.readOperand(0, first, phase, memory.data(), 16);
  };
  EXPECT_FALSE(multiply(0)); // never written
  EXPECT_TRUE(write(0));
  memory.fence(0);
  memory.synchronize(0b0111);
  EXPECT_FALSE(multiply(0)); // warp 3 does not know
  memory.synchronize(0b1100);
  EXPECT_TRUE(multiply(0));
  EXPECT_TRUE(read(127));
  memory.synchronize(0b1111);
  EXPECT_FALSE(write(0)); // the product may still read
  EXPECT_FALSE(in(memory.addCopier(), 0));
  memory.completeCopies(first, 1, 0);
  EXPECT_TRUE(write(0));
}

TEST(OperandsOfTwoWarpgroups, AreBothAwaited) {
  SharedMemory memory(64, 256);
  memory.begin();
  EXPECT_TRUE(memory.write(0, memory.data(), 16));
  memory.fence(0);
  memory.synchronize(0xff);
  const int copiers[] = {memory.addCopier(), memory.addCopier()};
  for (int group : {0, 1})
    EXPECT_TRUE(memory.readOperand(128 * group, copiers[group], 0, memory.data(), 16));
  memory.completeCopies(copiers[1], 1, 0);
  EXPECT_FALSE(memory.write(0, memory.data(), 16));
  memory.completeCopies(copiers[0], 1, 0);
  EXPECT_TRUE(memory.write(0, memory.data(), 16));
}

TEST_F(Shared, NeighbouringBytesAreSeparate) {
  EXPECT_TRUE(write(0, 0));
  EXPECT_TRUE(write(32, 4));
  EXPECT_TRUE(memory.write(64, memory.data() + 8, 1));
  EXPECT_TRUE(memory.write(65, memory.data() + 9, 1));
}

} // namespace
} // namespace kiln::test
