// See Bucket.h.
#include "runtime/dist/Bucket.h"
#include "runtime/dist/Backends.h"
#include "runtime/dist/Enqueued.h"
#include "runtime/dist/Fail.h"

#include <ATen/ATen.h>
#include <algorithm>
#include <c10/core/DeviceGuard.h>

namespace kiln::dist {

using at::Tensor;

namespace {

/// Of a parameter in a buffer, and of a rank's part of one: kernels read 16 bytes at a time.
constexpr std::int64_t kAligned = 64;

std::int64_t roundedUp(std::int64_t count, std::int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

Tensor viewOf(const Tensor& buffer, std::int64_t offset, const Tensor& parameter) {
  if (parameter.is_non_overlapping_and_dense())
    return sharing(buffer, offset, parameter.sizes(), parameter.strides());
  return sharing(buffer, offset, parameter.sizes(), at::empty_like(parameter).strides());
}

void checkGradient(const Slot& slot) {
  const Tensor& gradient = slot.tensor().grad();
  if (gradient.layout() != at::kStrided)
    fail(
        ErrorKind::input,
        "DataParallel: the gradient of {} is sparse; dense ones are taken: make its embedding with "
        "sparse(false)",
        slot.parameter.name);
  if (gradient.requires_grad())
    fail(ErrorKind::input,
         "DataParallel: the gradient of {} has a graph of its own (create_graph); ranks take first "
         "derivatives only",
         slot.parameter.name);
}

} // namespace

Tensor sharing(const Tensor& buffer, std::int64_t offset, at::IntArrayRef sizes,
               at::IntArrayRef strides) {
  return at::empty({0}, buffer.options())
      .set_(buffer.storage(), buffer.storage_offset() + offset, sizes, strides);
}

Bucket::Bucket(std::vector<Slot*> slots, std::shared_ptr<Group> ranks,
               const DataParallelOptions& options, std::optional<at::ScalarType> sums)
    : all(std::move(slots)), group(std::move(ranks)), options(options) {
  std::int64_t end = 0;
  for (Slot* slot : all) {
    slot->offset = end;
    end = roundedUp(end + slot->tensor().numel(), kAligned);
  }
  flags = end;
  const Tensor& like = all.front()->tensor();
  const int size = group->size();
  const std::int64_t elements = roundedUp(end + std::int64_t(all.size()), kAligned * size);
  if (sums || options.wire) // whose memory comes and goes; which is not sent
    buffer = at::zeros(
        {elements}, like.options().requires_grad(false).dtype(sums.value_or(like.scalar_type())));
  else
    buffer = group->buffer(elements, like.scalar_type());
  if (group->goesByCopyEngines(buffer))
    used = at::empty({std::int64_t(all.size())}, buffer.options());
  copyIn.emplace(used.defined() ? 1 : 1.0 / size); // those sums divide
  for (Slot* slot : all)
    slot->view = viewOf(buffer, slot->offset, slot->tensor());
  if (options.sharded)
    part = at::zeros({buffer.numel() / size}, buffer.options());
  if (options.wire && buffer.scalar_type() == at::kFloat && size > 1) {
    sent = at::zeros_like(buffer, buffer.options().dtype(*options.wire));
    for (const Slot* slot : all)
      sentViews.push_back(viewOf(sent, slot->offset, slot->tensor()));
    received = at::empty_like(sent);
    if (buffer.device().is_cuda())
      side = streamOf(buffer.device());
  }
}

void takeMemory(const Tensor& buffer) {
  c10::StorageImpl& storage = *buffer.storage().unsafeGetStorageImpl();
  const auto bytes = std::size_t(buffer.storage_offset() + buffer.numel()) * buffer.element_size();
  if (storage.nbytes() == bytes)
    return;
  const c10::DeviceGuard here(buffer.device()); // allocators take the thread's
  storage.set_data_ptr_noswap(storage.allocator()->allocate(bytes));
  storage.set_nbytes(bytes);
}

void giveMemory(const Tensor& buffer) {
  c10::StorageImpl& storage = *buffer.storage().unsafeGetStorageImpl();
  storage.set_data_ptr_noswap(storage.allocator()->allocate(0));
  storage.set_nbytes(0);
}

void Bucket::freeMemory() {
  giveMemory(buffer);
}

void Bucket::fill() {
  if (buffer.storage().nbytes() == 0) { // freed
    takeMemory(buffer);
    buffer.zero_();
  }
  // A host that enqueues a graph once may send each gradient from where it lies; one that does so
  // in every step has less to do with one buffer. The sums are the same.
  const bool fromWhereTheyLie = used.defined() && isCapturing(buffer.device());
  std::vector<Tensor> gradients, targets;
  parts.clear();
  for (std::size_t i = 0; i < all.size(); ++i) {
    Slot& slot = *all[i];
    const Tensor &to = sent.defined() ? sentViews[i] : slot.view, &gradient = slot.tensor().grad();
    slot.missing = !gradient.defined();
    if (slot.missing)
      to.zero_();
    else
      checkGradient(slot);
    if (fromWhereTheyLie)
      parts.push_back(partOf(slot));
    const bool isThere = (group->size() == 1 || used.defined()) && gradient.is_same(to);
    if (fromWhereTheyLie || slot.missing || isThere)
      continue;
    gradients.push_back(gradient);
    targets.push_back(to);
  }
  copyIn->run(gradients, targets);
  if (!used.defined())
    return flagUsed(
        (sent.defined() ? sent : buffer).slice(0, flags, flags + std::int64_t(all.size())));
  flagUsed(used);
  if (!fromWhereTheyLie)
    parts.push_back({buffer.slice(0, 0, flags), 0});
  parts.push_back({used, flags});
}

/// Of a slot, where its gradient lies; or in the buffer, if it lies otherwise or is missing.
Group::Part Bucket::partOf(const Slot& slot) const {
  const std::int64_t count = slot.tensor().numel();
  const Tensor own = sharing(buffer, slot.offset, {count}, {1});
  if (slot.missing)
    return {own, slot.offset};
  const Tensor& gradient = slot.tensor().grad();
  if (gradient.scalar_type() == buffer.scalar_type() && gradient.is_non_overlapping_and_dense() &&
      gradient.strides() == slot.view.strides())
    return {gradient.detach().as_strided({count}, {1}), slot.offset};
  Tensor(slot.view).copy_(gradient);
  return {own, slot.offset};
}

/// Says which gradients this rank has.
void Bucket::flagUsed(const Tensor& mine) {
  const auto count = std::int64_t(all.size());
  if (std::ranges::none_of(all, &Slot::missing)) {
    if (!usedIsOnes)
      mine.fill_(1);
    usedIsOnes = used.defined();
    return;
  }
  usedIsOnes = false;
  if (isCapturing(buffer.device()))
    fail(ErrorKind::input,
         "DataParallel: {} has no gradient in a step that is captured; a graph "
         "needs one for each parameter",
         all.front()->parameter.name);
  Tensor present = at::ones({count}, mine.options().device(at::kCPU));
  for (std::int64_t i = 0; i < count; ++i)
    if (all[std::size_t(i)]->missing)
      present[i] = 0;
  mine.copy_(present);
}

void Bucket::startWire() {
  pending = group->allToAll(received, sent);
}

/// Sums in the order of ranks.
void Bucket::finishWire() {
  pending.wait();
  const std::int64_t each = buffer.numel() / group->size();
  const Tensor mine = sent.slice(0, group->rank() * each, (group->rank() + 1) * each);
  sumOfRanks.run(received.chunk(group->size()), options.sharded ? part : mine);
  if (options.sharded)
    return;
  group->allGather(sent, mine).wait();
  buffer.copy_(sent);
}

void Bucket::start() {
  const at::NoGradGuard constant;
  if (used.defined()) {
    pending = group->sumOfParts(buffer, parts, 1.0 / group->size(), part);
    return;
  }
  if (!sent.defined()) {
    pending = options.sharded ? group->reduceScatter(part, buffer) : group->allReduce(buffer);
    return;
  }
  if (!side)
    return startWire();
  onSide = enqueueOn(*side, [&] { // where nobody waits on the host, all of it
    startWire();
    finishWire();
  });
}

void Bucket::finish() {
  const at::NoGradGuard constant;
  if (sent.defined() && !side)
    finishWire();
  pending.wait();
  parts.clear();
  if (onSide)
    onSide->synchronize();
}

bool Bucket::isUsedAnywhere(std::size_t slot) {
  return buffer[flags + std::int64_t(slot)].item<double>() > 0;
}

void Bucket::release() {
  for (std::size_t i = 0; i < all.size(); ++i) {
    Tensor& gradient = all[i]->tensor().mutable_grad();
    if (options.sharded)
      gradient.reset();
    else if (!all[i]->missing || isUsedAnywhere(i))
      gradient = all[i]->view;
  }
}

} // namespace kiln::dist
