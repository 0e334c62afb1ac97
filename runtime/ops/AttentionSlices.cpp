// See AttentionSlices.h.
#include "runtime/ops/AttentionSlices.h"

#include "runtime/ops/AttentionText.h"

#include <algorithm>

namespace kiln::runtime {

using at::Tensor;

/// Whether kernels can read and write there; or there is none.
static bool isPlace(const Tensor& tensor) {
  return !tensor.defined() || isAligned(tensor);
}

static Tensor writableSliceOf(const Tensor& tensor, std::int64_t i) {
  const Tensor slice = sliceOf(tensor, i);
  return isPlace(slice) ? slice : Tensor();
}

Tensor sliceOf(const Tensor& tensor, std::int64_t i) {
  return tensor.defined() && tensor.dim() > 0 ? tensor.select(0, tensor.size(0) == 1 ? 0 : i)
                                              : tensor;
}

Tensor readableSliceOf(const Tensor& tensor, std::int64_t i) {
  const Tensor slice = sliceOf(tensor, i);
  return isPlace(slice) ? slice : slice.clone();
}

std::int64_t slicesOf(const AttentionCall& call) {
  constexpr std::int64_t most = 16, fewestScores = 1 << 20; // of each: its launch costs less
  const Tensor &query = call.query, &bias = call.bias;
  if (query.dim() != 5 || !bias.defined() || call.p > 0) // whose numbers are of the whole call
    return 1;
  const std::int64_t count = query.size(0), sharing = query.size(1);
  const bool isOfSlice = count > 1 && bias.size(0) == count && sharing > 1 && bias.size(1) == 1;
  const std::int64_t scores =
      sharing * query.size(2) * query.size(3) * call.key.size(-2); // of a slice
  if (!isOfSlice || count > most || scores < fewestScores || !holdsBias(sliceOf(call, 0)))
    return 1;
  return count;
}

AttentionCall sliceOf(const AttentionCall& call, std::int64_t i) {
  AttentionCall slice = call;
  for (Tensor* one : {&slice.query, &slice.key, &slice.value, &slice.bias, &slice.mask})
    *one = readableSliceOf(*one, i);
  for (Tensor* one : {&slice.output, &slice.lse})
    *one = writableSliceOf(*one, i);
  return slice;
}

AttentionSaved sliceOf(const AttentionSaved& saved, std::int64_t i) {
  AttentionSaved slice = saved;
  for (Tensor* one : {&slice.output, &slice.lse})
    *one = readableSliceOf(*one, i);
  for (Tensor& one : slice.gradients)
    one = sliceOf(one, i);
  // All of them are placed, or none.
  if (!std::ranges::all_of(slice.gradients, [](const Tensor& one) { return isPlace(one); }))
    slice.gradients = {};
  return slice;
}

void putInto(const Tensor& part, const Tensor& result) {
  if (part.defined() && result.defined() && result.const_data_ptr() != part.const_data_ptr())
    part.copy_(result);
}

} // namespace kiln::runtime
