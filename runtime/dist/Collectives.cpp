// Tensors of a group's device: c10d's backend, or memory that ranks share. See kiln/dist/group.h.
#include "runtime/dist/Fail.h"
#include "runtime/dist/GroupImpl.h"
#include "runtime/dist/PartSum.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

namespace kiln::dist {

using at::Tensor;

namespace {

/// c10d's backends know few dtypes; whoever only moves elements moves bytes.
Tensor bytesOf(const Tensor& tensor) {
  return tensor.view({-1}).view(at::kByte);
}

c10::intrusive_ptr<c10d::Work> swapParts(c10d::Backend& backend, const Tensor& out,
                                         const Tensor& in) {
  Tensor to = bytesOf(out), from = bytesOf(in);
  std::vector<std::int64_t> equal;
  return backend.alltoall_base(to, from, equal, equal);
}

} // namespace

Group::Impl::Begin Group::Impl::reduced(const Tensor& tensor, c10d::ReduceOp::RedOpType op,
                                        Order order) {
  return [tensor, op, order](c10d::Backend& backend) {
    std::vector<Tensor> tensors = {tensor};
    c10d::AllreduceOptions options;
    options.reduceOp = op;
    options.asyncOp = order == Order::beside || tensor.is_cpu();
    const c10::intrusive_ptr<c10d::Work> work = backend.allreduce(tensors, options);
    return work ? work
                : enqueuedOnCurrent(tensor.device()); // c10d has none for its caller's stream
  };
}

/// Peers keep to a stream of their own, in which sums take turns with the memory that they share.
Pending Group::allReduce(const Tensor& tensor, Sum sum, Order order) {
  if (impl->peers && sum == Sum::plain && impl->peers->takes(tensor))
    return impl->onDevice("all-reduce", {tensor},
                          [&](c10d::Backend&) { return impl->peers->allReduce(tensor); });
  return impl->onDevice(
      "all-reduce", {tensor},
      Impl::reduced(tensor, sum == Sum::plain ? c10d::ReduceOp::SUM : c10d::ReduceOp::MAX, order));
}

Tensor Group::buffer(std::int64_t elements, at::ScalarType dtype) {
  // Two barriers and a copy take longer than NCCL's kernels do, up to some MiB, and three times as
  // long below this (bench/results/dist_h200.md).
  constexpr std::int64_t leastByChoice = 1 << 20;
  const std::int64_t bytes = elements * std::int64_t(c10::elementSize(dtype));
  const bool isSmall = !impl->options.copyEngines && bytes < leastByChoice;
  if (!impl->copies || !CopyEngines::takes(dtype) || elements == 0 || isSmall)
    return at::zeros({elements}, at::TensorOptions().device(device()).dtype(dtype));
  return impl->copies->empty(elements, dtype).zero_();
}

bool Group::goesByCopyEngines(const Tensor& buffer) const {
  return impl->copies && impl->copies->has(buffer);
}

Pending Group::sumOfParts(const Tensor& buffer, const std::vector<Part>& parts, double scale,
                          const Tensor& mine) {
  if (!goesByCopyEngines(buffer) || buffer.numel() % size() != 0)
    fail(ErrorKind::input,
         "sumOfParts: a tensor of {} elements for {} ranks; one of Group::buffer's is needed, of a "
         "multiple of the ranks, in a group with copyEngines",
         buffer.numel(), size());
  return impl->onDevice("sum", {buffer}, [&](c10d::Backend&) {
    return impl->copies->sum(buffer, parts, scale, mine);
  });
}

Pending Group::broadcast(const Tensor& tensor, int from) {
  return impl->onDevice("broadcast", {tensor}, [&](c10d::Backend& backend) {
    std::vector<Tensor> tensors = {bytesOf(tensor)};
    c10d::BroadcastOptions options;
    options.rootRank = from;
    return backend.broadcast(tensors, options);
  });
}

namespace {

void checkParts(const char* name, const Tensor& whole, const Tensor& part, int size) {
  if (whole.numel() != part.numel() * size || whole.scalar_type() != part.scalar_type())
    fail(ErrorKind::input,
         "{}: {} elements of {} in parts of {} of {}; {} ranks need as many equal parts", name,
         whole.numel(), c10::toString(whole.scalar_type()), part.numel(),
         c10::toString(part.scalar_type()), size);
}

} // namespace

Pending Group::reduceScatter(const Tensor& out, const Tensor& in) {
  checkParts("reduce-scatter", in, out, size());
  if (impl->isAlone() && out.data_ptr() != in.data_ptr())
    out.copy_(in.view_as(out));
  return impl->onDevice("reduce-scatter", {out, in}, [&](c10d::Backend& backend) {
    if (in.is_cpu() && in.is_floating_point()) {
      const Tensor received = at::empty_like(in).view({-1});
      return c10::intrusive_ptr<c10d::Work>(c10::make_intrusive<PartSum>(
          swapParts(backend, received, in), received.chunk(size()), out));
    }
    Tensor to = out.view({-1}), from = in.view({-1});
    return backend._reduce_scatter_base(to, from);
  });
}

Pending Group::allGather(const Tensor& out, const Tensor& in) {
  checkParts("all-gather", out, in, size());
  if (impl->isAlone() && out.data_ptr() != in.data_ptr())
    out.copy_(in.view_as(out));
  const bool isOwnPart =
      in.const_data_ptr() == static_cast<const char*>(out.const_data_ptr()) + rank() * in.nbytes();
  return impl->onDevice("all-gather", {in, out}, [&](c10d::Backend& backend) {
    if (isOwnPart && goesByCopyEngines(out))
      return impl->copies->gather(out);
    if (in.is_cpu()) // straight to each other rank; Gloo's own hands everything round a ring
      return swapParts(backend, out, in.view({-1}).repeat({size()}));
    Tensor to = bytesOf(out), from = bytesOf(in);
    return backend._allgather_base(to, from);
  });
}

Pending Group::allToAll(const Tensor& out, const Tensor& in) {
  checkParts("all-to-all", out, in.view({-1}).slice(0, 0, in.numel() / size()), size());
  if (impl->isAlone())
    out.copy_(in);
  return impl->onDevice("all-to-all", {in, out},
                        [&](c10d::Backend& backend) { return swapParts(backend, out, in); });
}

} // namespace kiln::dist
