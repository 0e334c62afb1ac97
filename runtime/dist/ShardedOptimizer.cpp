// See kiln/dist/sharded_optimizer.h.
#include "kiln/dist/sharded_optimizer.h"

#include "kiln/bucket_ops.h"
#include "kiln/optim.h"
#include "runtime/dist/Fail.h"
#include "runtime/dist/Pieces.h"
#include "runtime/dist/ShardState.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <algorithm>
#include <map>
#include <set>

namespace kiln::dist {

using at::Tensor;
using torch::optim::AdamWOptions;
using torch::optim::OptimizerParamGroup;

namespace {

/// Neighbouring buckets, whose parameters are gathered while the next segment is updated. Like
/// buckets they are the same on all ranks.
struct Segment {
  std::vector<FlatWeights> weights{};
  std::unique_ptr<optim::AdamW> inner{};
};
constexpr std::int64_t kSegments = 4;

} // namespace

struct ShardedOptimizer::Impl {
  std::shared_ptr<DataParallel::Impl> reducer;
  ShardedOptions options;
  std::vector<Segment> segments{};               // none before the first step
  std::vector<std::size_t> groupSizes{};         // at the first step
  std::map<const void*, std::size_t> bucketOf{}; // by parameter
  std::vector<Pending> coming{};                 // parameters, by bucket; none: step() gathers
  bool isGathered = true;                        // or on its way
  bool isCountedOnDevice = false;                // steps were replayed
  Tensor agreed{}, norm{}, scale{};
  Pending agreement{};
  optim::SquareSum squares{};
  std::vector<NamedParameter> given{}; // restore()'s, until there are pieces

  void prepare(std::vector<OptimizerParamGroup>& groups);
  void restoreOnAll();
  void divide();
  void checkSent(const std::vector<OptimizerParamGroup>& groups) const;
  void makeInner(Segment& segment, const std::vector<OptimizerParamGroup>& groups) const;
  void checkGroups(const std::vector<OptimizerParamGroup>& groups) const;
  void agree();
  void takeAgreement();
  void giveGradients();
  void clip();
  void giveOptions(Segment& segment, const std::vector<OptimizerParamGroup>& groups) const;
  void update(const std::vector<OptimizerParamGroup>& groups);
  void gather();
  void forgetGathered();
  void need(std::size_t bucket);
  template <typename Each> void forEachPiece(Each each) {
    for (Segment& segment : segments)
      for (FlatWeights& flat : segment.weights)
        for (Piece& piece : flat.pieces)
          each(piece);
  }
};

ShardedOptimizer::ShardedOptimizer(DataParallel& parallel,
                                   const std::vector<OptimizerParamGroup>& groups,
                                   const AdamWOptions& defaults, const ShardedOptions& options)
    : Optimizer(groups, std::make_unique<AdamWOptions>(defaults)),
      impl(new Impl{.reducer = parallel.impl, .options = options}) {
  if (!parallel.options().sharded)
    fail(ErrorKind::input, "ShardedOptimizer: its DataParallel needs the option sharded = true");
  if (!(options.maxGradNorm >= 0))
    fail(ErrorKind::input,
         "ShardedOptimizer: maxGradNorm = {}; allowed are numbers of 0 or more, 0 "
         "for no clip",
         options.maxGradNorm);
}

ShardedOptimizer::ShardedOptimizer(DataParallel& parallel, std::vector<Tensor> parameters,
                                   const AdamWOptions& defaults, const ShardedOptions& options)
    : ShardedOptimizer(parallel,
                       std::vector<OptimizerParamGroup>{OptimizerParamGroup(std::move(parameters))},
                       defaults, options) {}

ShardedOptimizer::~ShardedOptimizer() = default;

void ShardedOptimizer::Impl::checkSent(const std::vector<OptimizerParamGroup>& groups) const {
  std::set<const void*> sent;
  for (const Slot& slot : reducer->slots)
    sent.insert(slot.tensor().unsafeGetTensorImpl());
  for (const OptimizerParamGroup& group : groups)
    for (const Tensor& parameter : group.params())
      if (parameter.requires_grad() && !sent.contains(parameter.unsafeGetTensorImpl()))
        fail(ErrorKind::input,
             "ShardedOptimizer: a parameter of {} elements is none that its "
             "DataParallel sends",
             parameter.numel());
}

/// Segments of about as many elements; one, if nothing is gathered meanwhile.
void ShardedOptimizer::Impl::divide() {
  const std::int64_t count = options.gather == Gather::inStep ? kSegments : 1;
  std::int64_t all = 0, before = 0;
  for (const auto& bucket : reducer->buckets)
    all += bucket->elements();
  for (auto& bucket : reducer->buckets) {
    const auto due = std::size_t(before * count / std::max<std::int64_t>(all, 1));
    if (segments.empty() || segments.size() <= due)
      segments.emplace_back();
    segments.back().weights.emplace_back(*bucket, *reducer->group);
    before += bucket->elements();
  }
}

/// Of a segment's pieces, in the groups of their parameters.
void ShardedOptimizer::Impl::makeInner(Segment& segment,
                                       const std::vector<OptimizerParamGroup>& groups) const {
  std::map<const void*, std::vector<Piece*>> owned;
  for (FlatWeights& flat : segment.weights)
    for (Piece& piece : flat.pieces)
      owned[piece.slot->tensor().unsafeGetTensorImpl()].push_back(&piece);
  std::vector<OptimizerParamGroup> made;
  for (const OptimizerParamGroup& group : groups) {
    std::vector<Tensor> masters;
    for (const Tensor& parameter : group.params())
      if (const auto found = owned.find(parameter.unsafeGetTensorImpl()); found != owned.end())
        for (const Piece* piece : found->second)
          masters.push_back(piece->master);
    made.emplace_back(std::move(masters), group.options().clone());
  }
  optim::AdamWExtras extras;
  if (options.maxGradNorm > 0)
    extras.unscale = scale;
  segment.inner = std::make_unique<optim::AdamW>(made, AdamWOptions(), extras);
  for (auto& [parameter, pieces] : owned)
    for (Piece* piece : pieces) {
      piece->updates = segment.inner.get();
      if (piece->hasCopy())
        segment.inner->bindCopy(piece->master, piece->weights);
    }
}

void ShardedOptimizer::Impl::prepare(std::vector<OptimizerParamGroup>& groups) {
  if (!segments.empty())
    return checkGroups(groups);
  checkSent(groups);
  divide();
  scale = at::ones({}, at::TensorOptions().device(reducer->group->device()));
  for (Segment& segment : segments)
    makeInner(segment, groups);
  for (const OptimizerParamGroup& group : groups)
    groupSizes.push_back(group.params().size());
  for (const Slot& slot : reducer->slots)
    bucketOf[slot.tensor().unsafeGetTensorImpl()] = slot.bucket;
  if (options.gather == Gather::whenNeeded)
    coming.resize(reducer->buckets.size());
  restoreOnAll();
}

/// What one rank refuses all do: the others would wait for it in this step.
void ShardedOptimizer::Impl::restoreOnAll() {
  std::vector<Piece*> pieces;
  forEachPiece([&](Piece& piece) { pieces.push_back(&piece); });
  std::string refusal;
  try {
    restorePieces(pieces, std::exchange(given, {}));
  } catch (const Error& error) {
    refusal = error.what();
  }
  const auto refusals = reducer->group->gather(refusal);
  const auto first = std::ranges::find_if_not(refusals, &std::string::empty);
  if (first != refusals.end())
    fail(ErrorKind::input, "rank {} of {}: {}", first - refusals.begin(), refusals.size(), *first);
}

void ShardedOptimizer::Impl::checkGroups(const std::vector<OptimizerParamGroup>& groups) const {
  bool same = groups.size() == groupSizes.size();
  for (std::size_t i = 0; same && i < groups.size(); ++i)
    same = groups[i].params().size() == groupSizes[i];
  if (!same)
    fail(ErrorKind::input,
         "ShardedOptimizer: parameters were added after the first step, when ranks "
         "had their parts already; add them before, or make a new optimizer");
}

/// One small all-reduce: the square of the gradient's norm, and which parameters have a gradient.
void ShardedOptimizer::Impl::agree() {
  std::vector<Tensor> gradients;
  forEachPiece([&](const Piece& piece) { gradients.push_back(piece.gradient); });
  const auto count = std::int64_t(reducer->slots.size());
  agreed = at::zeros({1 + count}, at::TensorOptions().device(reducer->group->device()));
  if (!gradients.empty())
    agreed[0] = squares.run(gradients);
  bool isAnyMissing = false;
  Tensor used = at::ones({count});
  for (std::int64_t i = 0; i < count; ++i)
    if (reducer->slots[std::size_t(i)].missing) {
      used[i] = 0;
      isAnyMissing = true;
    }
  const Tensor flags = agreed.slice(0, 1);
  if (isAnyMissing)
    flags.copy_(used);
  else
    flags.fill_(1);
  agreement = reducer->group->allReduce(agreed, Sum::plain, Order::inStream);
  // A host that waits begins its part later, which it does for what it needs alone.
  if (!agreed.is_cpu() || options.maxGradNorm > 0 || isAnyMissing)
    takeAgreement();
}

void ShardedOptimizer::Impl::takeAgreement() {
  agreement.wait();
  norm = agreed[0].sqrt();
}

/// What a rank has no gradient for, another may have; only such a rank waits for the device.
void ShardedOptimizer::Impl::giveGradients() {
  Tensor flags;
  std::map<const Slot*, bool> unused;
  for (std::size_t i = 0; i < reducer->slots.size(); ++i)
    if (reducer->slots[i].missing) {
      if (!flags.defined())
        flags = agreed.slice(0, 1).cpu();
      unused[&reducer->slots[i]] = flags[std::int64_t(i)].item<float>() == 0;
    }
  forEachPiece([&](Piece& piece) {
    const auto found = unused.find(piece.slot);
    Tensor gradient = found != unused.end() && found->second ? Tensor() : piece.gradient;
    (piece.hasCopy() ? piece.weights : piece.master).mutable_grad() = gradient;
  });
}

/// torch's clip_grad_norm_: the same constant.
void ShardedOptimizer::Impl::clip() {
  if (options.maxGradNorm > 0)
    scale.copy_((options.maxGradNorm / (norm + 1e-6)).clamp_max(1));
}

void ShardedOptimizer::Impl::giveOptions(Segment& segment,
                                         const std::vector<OptimizerParamGroup>& groups) const {
  for (std::size_t i = 0; i < groups.size(); ++i)
    segment.inner->param_groups()[i].set_options(groups[i].options().clone());
}

/// What a segment has updated is on its way to all ranks while the next one is updated, or stays
/// until it is needed.
void ShardedOptimizer::Impl::update(const std::vector<OptimizerParamGroup>& groups) {
  std::vector<Pending> pending;
  for (Segment& segment : segments) {
    giveOptions(segment, groups);
    segment.inner->step();
    segment.inner->zero_grad();
    if (options.gather == Gather::inStep)
      for (const FlatWeights& flat : segment.weights)
        pending.push_back(reducer->group->allGather(flat.all, flat.mine));
  }
  for (Pending& one : pending)
    one.wait();
  forgetGathered();
}

void ShardedOptimizer::Impl::forgetGathered() {
  if (options.gather == Gather::inStep)
    return;
  isGathered = false;
  for (auto& bucket : reducer->buckets)
    bucket->isStale = true;
}

/// The last bucket first: what got its gradients last is read first.
void ShardedOptimizer::Impl::gather() {
  const std::vector<FlatWeights>& weights = segments.front().weights; // the only one
  for (std::size_t i = weights.size(); i-- > 0;)
    coming[i] = reducer->group->allGather(weights[i].all, weights[i].mine);
  isGathered = true;
}

void ShardedOptimizer::Impl::need(std::size_t bucket) {
  if (!isGathered)
    gather();
  if (std::exchange(reducer->buckets[bucket]->isStale, false))
    coming[bucket].wait();
}

Tensor ShardedOptimizer::step(LossClosure closure) {
  Tensor loss;
  if (closure) {
    const at::AutoGradMode withGrad(true);
    loss = closure();
  }
  RECORD_USER_SCOPE("Optimizer.step#ShardedOptimizer.step");
  const at::NoGradGuard noGrad;
  if (!impl->reducer->isReduced)
    return loss;
  impl->prepare(param_groups());
  impl->agree();
  impl->giveGradients();
  impl->clip();
  impl->update(param_groups());
  zero_grad();
  return loss;
}

// NOLINTNEXTLINE(readability-identifier-naming)
void ShardedOptimizer::zero_grad(bool set_to_none) {
  Optimizer::zero_grad(set_to_none);
  impl->reducer->isReduced = false;
}

void ShardedOptimizer::need(const torch::nn::Module& module) {
  const at::NoGradGuard noGrad;
  if (impl->coming.empty()) // no step yet, or all is there
    return;
  for (const Tensor& parameter : module.parameters())
    if (const auto found = impl->bucketOf.find(parameter.unsafeGetTensorImpl());
        found != impl->bucketOf.end())
      impl->need(found->second);
}

bool ShardedOptimizer::canBeCaptured() const {
  const auto byKernels = [](const Segment& segment) {
    const auto owns = [](const FlatWeights& flat) { return !flat.pieces.empty(); };
    return segment.inner->launches() > 0 || std::ranges::none_of(segment.weights, owns);
  };
  return !impl->segments.empty() && std::ranges::all_of(impl->segments, byKernels);
}

void ShardedOptimizer::prepareReplay() {
  for (Segment& segment : impl->segments) {
    impl->giveOptions(segment, param_groups());
    segment.inner->updateRates();
  }
  impl->forgetGathered();
  impl->isCountedOnDevice = true;
}

Tensor ShardedOptimizer::gradNorm() const {
  if (impl->agreed.defined() && impl->agreed.is_cpu())
    impl->takeAgreement();
  return impl->norm;
}

std::size_t ShardedOptimizer::stateBytes() const {
  std::size_t bytes = 0;
  impl->forEachPiece([&](const Piece& piece) {
    bytes += 2 * piece.master.nbytes() + (piece.hasCopy() ? piece.master.nbytes() : 0);
  });
  return bytes;
}

std::vector<NamedParameter> ShardedOptimizer::state(bool whole) {
  if (impl->segments.empty()) // no step since restore()
    return !whole || impl->reducer->group->rank() == 0 ? impl->given
                                                       : std::vector<NamedParameter>();
  const at::NoGradGuard noGrad;
  std::vector<FlatWeights*> weights;
  for (Segment& segment : impl->segments) {
    if (impl->isCountedOnDevice)
      segment.inner->readSteps();
    for (FlatWeights& flat : segment.weights)
      weights.push_back(&flat);
  }
  return whole ? wholeState(weights, *impl->reducer) : partialState(weights);
}

void ShardedOptimizer::restore(const std::vector<NamedParameter>& state) {
  checkState(state, *impl->reducer);
  for (std::size_t i = 0; i < impl->coming.size(); ++i)
    impl->need(i);
  impl->coming.clear();
  impl->given = state;
  impl->isCountedOnDevice = false;
  impl->segments.clear(); // made anew, of the parameters as they are then
  impl->groupSizes.clear();
}

} // namespace kiln::dist
