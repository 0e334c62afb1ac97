// The search space of kernels over lists of tensors, in one part and in several.
#include "codegen/families/multi_tensor/cost/Cost.h"

#include <gtest/gtest.h>

using namespace kiln;
using namespace kiln::model;

namespace {

/// Parts of a kernel move as many bytes a thread, and a thread holds the lists of one.
TEST(Space, OfListsInParts) {
  const multi_tensor::Facts wide{.inputs = 4, .outputs = 3, .bytesRead = 16, .bytesWritten = 12};
  const multi_tensor::Facts narrow{
      .inputs = 1, .outputs = 1, .widestBytes = 2, .bytesRead = 2, .bytesWritten = 2};
  const multi_tensor::Facts both = multi_tensor::together({{0, wide}, {3, narrow}});
  EXPECT_EQ(both.parts, 2);
  EXPECT_EQ(both.inputs, 4);
  EXPECT_EQ(both.outputs, 3);
  EXPECT_EQ(both.bytesRead, 18);
  EXPECT_EQ(both.bytesWritten, 14);
  EXPECT_EQ(multi_tensor::vectorOf(4, both, 4), 4);
  EXPECT_EQ(multi_tensor::vectorOf(4, both, 2), 8);
  EXPECT_EQ(multi_tensor::estimatedRegisters({}, both), multi_tensor::estimatedRegisters({}, wide));
  const Target& target = findTarget("sm_90a");
  const multi_tensor::Schedule chosen = multi_tensor::defaultSchedule(both, target);
  EXPECT_EQ(chosen.vector, 4);
  EXPECT_EQ(chosen.threads, 128) << "a chunk of 1024 elements of two bytes";
  const Space space = enumerate(both, target, kTypicalElements);
  ASSERT_FALSE(space.feasible.empty());
  for (const model::Candidate& candidate : space.feasible) {
    const auto schedule = multi_tensor::Schedule::of(candidate.schedule);
    EXPECT_LE(schedule.threads * schedule.vector * 2, 1024);
  }
}

/// Kernels over lists: the family's default first, then by cost, and all of them fit.
TEST(Space, OfLists) {
  multi_tensor::Facts adamw{.inputs = 4, .outputs = 3, .bytesRead = 16, .bytesWritten = 12};
  multi_tensor::Facts norm{.inputs = 1, .bytesRead = 4, .hasSums = true};
  for (std::string_view arch : {"sm_80", "sm_90a"})
    for (const multi_tensor::Facts& f : {adamw, norm}) {
      const Target& target = findTarget(arch);
      Space space = enumerate(f, target, kTypicalElements);
      ASSERT_GT(space.feasible.size(), 50u);
      EXPECT_TRUE(space.feasible[0].schedule == multi_tensor::defaultSchedule(f, target).general());
      std::int64_t refused = 0;
      for (const auto& [rule, fallen] : space.refused)
        refused += fallen.count;
      EXPECT_EQ(refused + static_cast<std::int64_t>(space.feasible.size()), space.tuples);
      for (std::size_t i = 0; i < space.feasible.size(); ++i) {
        EXPECT_TRUE(
            multi_tensor::check(multi_tensor::Schedule::of(space.feasible[i].schedule), f, target)
                .empty());
        if (i > 1) {
          EXPECT_LE(space.feasible[i - 1].cost.total, space.feasible[i].cost.total);
        }
      }
    }
}

} // namespace
