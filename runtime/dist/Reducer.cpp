// See Reducer.h.
#include "runtime/dist/Reducer.h"
#include "runtime/dist/Agree.h"
#include "runtime/dist/Fail.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <algorithm>
#include <charconv>
#include <limits>
#include <map>

namespace kiln::dist {

namespace {

std::string optionsText(const DataParallelOptions& options) {
  return fmt::format("options: mode {}, buckets of {} bytes, the first of {}, wire {}{}{}",
                     int(options.mode), options.bucketBytes.value_or(-1), options.firstBucketBytes,
                     options.wire ? c10::toString(*options.wire) : "as it is",
                     options.deferred ? ", deferred" : "", options.sharded ? ", sharded" : "");
}

void checkOptions(const DataParallelOptions& options) {
  const std::int64_t bytes = options.bucketBytes.value_or(0);
  if (bytes < 0 || options.firstBucketBytes < 0)
    fail(ErrorKind::input,
         "DataParallel: buckets of {} bytes, the first of {}; 0 or more are needed", bytes,
         options.firstBucketBytes);
  if (options.wire && *options.wire != at::kBFloat16 && *options.wire != at::kHalf)
    fail(ErrorKind::input, "DataParallel: wire = {}; allowed are bf16 and fp16",
         c10::toString(*options.wire));
}

} // namespace

DataParallel::Impl::Impl(const std::vector<NamedParameter>& given, std::shared_ptr<Group> ranks,
                         const DataParallelOptions& options)
    : group(std::move(ranks)), options(options) {
  checkOptions(options);
  const auto parameters = withoutTies(given);
  checkAgreement(*group, parameters, optionsText(options));
  for (const NamedParameter& one : parameters)
    if (one.tensor.requires_grad()) {
      if (one.tensor.device() != group->device() || !one.tensor.is_leaf())
        fail(ErrorKind::input,
             "DataParallel: {} {}; leaves on {} are needed: move the module first", one.name,
             one.tensor.is_leaf() ? "is on " + one.tensor.device().str() : "is no leaf",
             group->device().str());
      slots.push_back({.parameter = one});
    }
  sendFirst(*group, parameters);
}

void DataParallel::Impl::listen() {
  std::vector<at::Tensor> leaves;
  for (const Slot& slot : slots)
    leaves.push_back(slot.tensor());
  hooks.emplace(std::move(leaves), [this](std::size_t index) { arrive(index); });
}

void DataParallel::Impl::arrive(std::size_t index) {
  if (buckets.empty() && std::ranges::find(order, index) == order.end())
    order.push_back(index);
  if (!buckets.empty() && buckets[slots[index].bucket]->isStale)
    fail(ErrorKind::input,
         "ShardedOptimizer: {} was read as it was before the last step; call need() with its "
         "module before the forward, or take Gather::inStep",
         slots[index].parameter.name);
  if (quiet || options.deferred)
    return;
  begin();
  if (buckets.empty())
    return;
  --buckets[slots[index].bucket]->waitsFor;
  if (options.mode == Mode::overlapped)
    startFull();
}

void DataParallel::Impl::send(Bucket& bucket) {
  const at::NoGradGuard constant;
  bucket.fill();
  bucket.start();
  ++started;
}

/// At a backward's first gradient: what shall follow its last one.
void DataParallel::Impl::begin() {
  const int current = currentBackward();
  if (current == backward)
    return;
  if (backward != kNone)
    fail(ErrorKind::input, "DataParallel: a backward began before another ended, which has failed "
                           "or runs around it; take deferred = true and syncGrad()");
  if (isReduced)
    fail(ErrorKind::input,
         "DataParallel: a second backward before the sharded optimizer's step; all but the last "
         "backward of a step belong into noSync()");
  backward = current;
  atEndOfBackward([self = shared_from_this()] { self->finish(); });
}

/// In the buckets' order, which is the same on all ranks.
void DataParallel::Impl::startFull() {
  while (started < buckets.size() && buckets[started]->waitsFor == 0)
    send(*buckets[started]);
}

void DataParallel::Impl::finish() {
  RECORD_USER_SCOPE("DataParallel.sync");
  backward = kNone;
  if (buckets.empty())
    makeBuckets();
  while (started < buckets.size())
    send(*buckets[started]);
  for (auto& bucket : buckets)
    bucket->finish();
  for (auto& bucket : buckets) {
    bucket->release();
    bucket->waitsFor = bucket->slots().size();
  }
  started = 0;
  isReduced = options.sharded;
}

/// Rank 0's; what had no gradient there comes last, the last of the module first.
std::vector<std::size_t> DataParallel::Impl::agreedOrder() {
  for (std::size_t i = slots.size(); i-- > 0;)
    if (std::ranges::find(order, i) == order.end())
      order.push_back(i);
  std::string text;
  for (std::size_t i : order)
    text += std::to_string(i) + ' ';
  const std::string first = group->gather(text)[0];
  std::vector<std::size_t> agreed;
  for (const char *at = first.data(), *end = at + first.size(); at < end;) {
    std::size_t index = 0;
    at = std::from_chars(at, end, index).ptr + 1;
    agreed.push_back(index);
  }
  return agreed;
}

void DataParallel::Impl::makeBuckets() {
  struct Open {
    std::vector<Slot*> slots;
    std::int64_t bytes = 0;
  };
  std::map<at::ScalarType, Open> open;
  std::vector<std::vector<Slot*>> made;
  std::int64_t left = 0;
  for (const Slot& slot : slots)
    left += std::int64_t(slot.tensor().nbytes());
  const std::int64_t usual = std::clamp<std::int64_t>(left / 16, 25 << 20, 100 << 20);
  // No gradient comes behind the last bucket, which nothing hides: the last ones are ever smaller.
  const auto most = [&] {
    return options.bucketBytes.value_or(std::clamp<std::int64_t>(left / 2, 4 << 20, usual));
  };
  const auto limit = [&]() -> std::int64_t {
    if (options.mode == Mode::flat)
      return std::numeric_limits<std::int64_t>::max();
    if (options.mode == Mode::perParameter)
      return 0;
    return made.empty() ? std::min(options.firstBucketBytes, most()) : most();
  };
  for (std::size_t index : agreedOrder()) {
    Slot& slot = slots[index];
    Open& here = open[slot.tensor().scalar_type()];
    here.slots.push_back(&slot);
    here.bytes += std::int64_t(slot.tensor().nbytes());
    if (here.bytes >= limit()) {
      left -= here.bytes;
      made.push_back(std::exchange(here, {}).slots);
    }
  }
  for (auto& [dtype, here] : open)
    if (!here.slots.empty())
      made.push_back(std::move(here.slots));
  for (auto& members : made) {
    for (Slot* slot : members)
      slot->bucket = buckets.size();
    buckets.push_back(std::make_unique<Bucket>(std::move(members), group, options));
  }
}

} // namespace kiln::dist
