// For tests that run in several ranks at once: all ranks run the same tests in the same order, in
// one group. A rank whose expectation fails says so; the launcher returns its exit code.
#pragma once

#include "kiln/dist/group.h"

#include <ATen/Context.h>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace kiln::dist {

/// Of this run. Its time limit is short, so that a rank that is missed fails the test soon.
std::shared_ptr<Group> ranks();

/// Another one of all ranks, by a file of their own.
inline std::shared_ptr<Group> startWith(GroupOptions options) {
  const auto mine = std::filesystem::temp_directory_path() / fmt::format("kiln_group_{}", getpid());
  options.file = ranks()->gather(mine.string())[0];
  options.limit = std::chrono::seconds(20);
  if (ranks()->rank() == 0)
    std::filesystem::remove(options.file);
  ranks()->barrier();
  return Group::start(ranks()->place(), options);
}

/// A GPU for each of several ranks.
inline bool haveGpus() {
  return ranks()->size() > 1 && at::getNumGPUs() >= std::size_t(ranks()->size());
}
inline at::Device ownGpu() {
  return {at::kCUDA, c10::DeviceIndex(ranks()->place().localRank)};
}

} // namespace kiln::dist
