// Fibers on their own: turns, reuse, exceptions on their stacks, stacks as deep as promised.
#include "codegen/host/Fibers.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace kiln::test {
namespace {

TEST(Fiber, TakesTurnsWithItsCaller) {
  FiberLoan fibers(2);
  std::string order;
  for (int i = 0; i < 2; ++i)
    fibers[i].start([&, i] {
      order += static_cast<char>('a' + i);
      fibers[i].suspend();
      order += static_cast<char>('A' + i);
    });
  for (int turn = 0; turn < 2; ++turn)
    for (int i = 0; i < 2; ++i)
      fibers[i].resume();
  EXPECT_EQ(order, "abAB");
  EXPECT_FALSE(fibers[0].running());
}

TEST(Fiber, RunsAgainAndAgain) {
  FiberLoan fibers(1);
  int count = 0;
  fibers[0].start([&] { ++count; });
  for (int i = 0; i < 1000; ++i)
    fibers[0].resume();
  EXPECT_EQ(count, 1000);
}

TEST(Fiber, CatchesExceptionsThrownAfterASwitch) {
  FiberLoan fibers(1);
  std::string caught;
  fibers[0].start([&] {
    try {
      fibers[0].suspend();
      throw std::runtime_error("inside");
    } catch (const std::exception& error) {
      caught = error.what();
    }
  });
  fibers[0].resume();
  EXPECT_TRUE(fibers[0].running());
  fibers[0].resume();
  EXPECT_EQ(caught, "inside");
}

int depth(int levels) {
  volatile char frame[1024] = {};
  return levels == 0 ? frame[0] : depth(levels - 1) + 1 + frame[1023];
}

TEST(Fiber, HasRoomForLargeFrames) {
  FiberLoan fibers(1);
  int result = 0;
  fibers[0].start([&] { result = depth(40); });
  fibers[0].resume();
  EXPECT_EQ(result, 40);
}

TEST(Fiber, IsCheapEnoughForManyThreads) {
  for (int round = 0; round < 20; ++round) {
    FiberLoan fibers(1024);
    int sum = 0;
    for (int i = 0; i < 1024; ++i) {
      fibers[i].start([&, i] {
        sum += i;
        fibers[i].suspend();
        sum -= i;
      });
      fibers[i].resume();
    }
    for (int i = 0; i < 1024; ++i)
      fibers[i].resume();
    EXPECT_EQ(sum, 0);
  }
}

} // namespace
} // namespace kiln::test
