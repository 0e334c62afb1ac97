// What data-parallel training does with many tensors at once: gradients scaled and cast on their
// way into a bucket, in one launch over all of them; the parts of several ranks summed, in one; and
// on the way out the square of a norm, in two, of which the second sums what blocks have summed. By
// Kiln's kernels over lists where kiln::enable() has switched them on for the tensors' device, else
// by ATen's; the results have the same bits, but for the order of the norm's sum. (The update
// behind it is kiln::optim::AdamW's, which unscales and clips in its own launch.)
//
// An object remembers where its tensors lie: one for each set of tensors that comes again. It may
// be captured into CUDA graphs. Nothing waits for the device. Dtypes are fp32, bf16 and fp16 for
// Kiln's kernels, and what ATen takes otherwise; all tensors of a call are on one device.
#pragma once

#include "kiln/kiln.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace kiln::optim {

class ListCall;

/// to[i] = scale * from[i], computed in fp32 and rounded to the dtype of to[i]. A tensor may be its
/// own target.
class KILN_API ScaledCopy {
 public:
  explicit ScaledCopy(double scale = 1);
  ~ScaledCopy();
  /// Throws Error(input) for lists of other lengths, and tensors of other sizes.
  void run(const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& to);
  std::size_t launches() const; // of the last call; 0: ATen's

 private:
  double scale;
  std::unique_ptr<ListCall> call;
};

/// to = scale * (from[0] + from[1] + ...), summed in fp32 in this order, and rounded to the dtype
/// of `to`, which may be one of those summed.
class KILN_API OrderedSum {
 public:
  explicit OrderedSum(double scale = 1);
  ~OrderedSum();
  /// Contiguous, from one tensor on, of one dtype and as many elements as `to`. Throws
  /// Error(input).
  void run(const std::vector<at::Tensor>& from, const at::Tensor& to);
  /// Of lists: to[i] = scale * (from[0][i] + from[1][i] + ...).
  void run(const std::vector<std::vector<at::Tensor>>& from, const std::vector<at::Tensor>& to);
  std::size_t launches() const;

 private:
  double scale;
  std::unique_ptr<ListCall> call;
};

/// The sum of the squares of all elements, in fp32.
class KILN_API SquareSum {
 public:
  SquareSum();
  ~SquareSum();
  /// A scalar on the tensors' device. Throws Error(input) for no tensor.
  at::Tensor run(const std::vector<at::Tensor>& tensors);
  std::size_t launches() const;

 private:
  std::unique_ptr<ListCall> call;
};

} // namespace kiln::optim
