// Calls of two leading dimensions whose bias is one for each of the first and the same along the
// second, as pairs of several templates have. Blocks hold a bias of heads that tensor maps show in
// two strides, and these have three: such a call is one for each of the first dimension, and all
// write to parts of one result.
#pragma once

#include "runtime/ops/AttentionByATen.h"

namespace kiln::runtime {

/// Calls that a call is divided into, along its first dimension; 1: it stays as it is.
std::int64_t slicesOf(const AttentionCall& call);
/// The i-th of a tensor, and of all that a call reads and writes: what would begin where kernels
/// cannot read is copied, and where they cannot write they make results of their own.
at::Tensor sliceOf(const at::Tensor& tensor, std::int64_t i);
at::Tensor readableSliceOf(const at::Tensor& tensor, std::int64_t i);
AttentionCall sliceOf(const AttentionCall& call, std::int64_t i);
AttentionSaved sliceOf(const AttentionSaved& saved, std::int64_t i);

/// A slice's result into its part, unless it was written there.
void putInto(const at::Tensor& part, const at::Tensor& result);

} // namespace kiln::runtime
