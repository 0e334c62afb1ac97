// What no schedule of a kernel is faster than: its bytes at the nominal bandwidth of a target, its
// products at the rate of the tensor cores, its exponentials at that of the special-function units.
// The longest of the three is the kernel's limit.
#pragma once

#include "codegen/model/KernelModel.h"

#include <string_view>
#include <vector>

namespace kiln::model {

/// us of each.
struct Roofline {
  double bytes = 0, tensorCores = 0, exponentials = 0;

  double microseconds() const;
  /// The name of what takes longest, for people: "bytes", "tensor cores", "exponentials".
  std::string_view limit() const;
};

Roofline rooflineOf(const KernelModel& kernel, const Target& target);

/// Of kernels that run one after another.
struct RooflineOfAll {
  double microseconds = 0;
  std::string_view limit; // of most of that time; of no time bytes
};
RooflineOfAll rooflineOf(const std::vector<Roofline>& kernels);

} // namespace kiln::model
