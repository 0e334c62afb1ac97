// One launch of a route's kernel: makes its results and hands over pointers. In verify mode it also
// keeps the tensors, to tell how a difference can be reproduced.
#pragma once

#include "runtime/Call.h"
#include "runtime/Plan.h"
#include "runtime/Site.h"

#include <ATen/core/Tensor.h>
#include <functional>
#include <initializer_list>
#include <vector>

namespace kiln::runtime {

class Launch {
 public:
  Launch(Plan& plan, const Kernel& kernel, const Call& call, bool keeps = false)
      : call(call), plan(plan), kernel(kernel), keeps(keeps) {}

  const Call& call;
  const Backend& backend() const { return plan.site.backend; }

  /// Uninitialised, contiguous, on the device of the call.
  at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype) const;
  /// One fp32 number for each row of that shape of `x`, with as many dimensions as `x`.
  at::Tensor emptyStatistic(const at::Tensor& x, at::IntArrayRef rowShape) const;
  /// With the sizes and strides of a dense tensor.
  at::Tensor emptyLike(const at::Tensor& dense) const;
  at::Tensor emptyLike(const at::Tensor& dense, at::ScalarType dtype) const;
  /// A seed and an offset for this launch.
  Draw draw() const { return backend().draw(); }

  using Tensors = std::initializer_list<const at::Tensor*>;
  /// In the order of the route; null, or undefined, for what is not there. `numbers`: operands
  /// behind the tensors, an i64 each on the device.
  void operator()(const Tensors& operands, const Tensors& results,
                  std::initializer_list<const void*> numbers = {}) const;
  /// The same of tensors with strides, as the kernel says which it takes.
  void strided(const Tensors& operands, const Tensors& results) const;

  /// Compares the results of Kiln and ATen, of this launch; where they differ, both with `exact`,
  /// ATen's in fp64. A difference is written to the log and counted; in strict mode it is an error,
  /// and nothing else that goes wrong here is one.
  using Results = std::vector<at::Tensor>;
  bool agrees(const Results& ours, const Results& theirs, const std::function<Results()>& exact,
              const Policy& policy) const;

 private:
  std::string differenceOf(const Results& ours, const Results& theirs,
                           const std::function<Results()>& exact) const;
  std::string reproduction() const;
  void keep(const Tensors& operands, std::initializer_list<const void*> numbers) const;

  Plan& plan;
  const Kernel& kernel;
  const bool keeps;
  mutable std::vector<at::Tensor> kept; // operands by slot
};

} // namespace kiln::runtime
