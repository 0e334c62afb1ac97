// See Site.h.
#include "runtime/Site.h"

#include "runtime/Call.h"
#include "runtime/Compiler.h"
#include "runtime/Log.h"
#include "runtime/Route.h"

#include <ATen/TensorSubclassLikeUtils.h>
#include <fmt/ranges.h>

namespace kiln::runtime {

std::string labelOf(const Route& route, const Key& key, std::span<const std::int64_t> sizes) {
  return route.label ? route.label(key, sizes)
                     : fmt::format("{}x{} {}", sizes[0], key.width, name(key.dtypes[0]));
}

c10::DispatchKey Site::key() const {
  const c10::DispatchKey key = backend.key();
  switch (route.layer) {
  case Layer::autograd:
    return c10::getAutogradKeyFromBackend(c10::toBackendComponent(key));
  case Layer::autocast:
    return backend.place == Place::gpu ? c10::DispatchKey::AutocastCUDA
                                       : c10::DispatchKey::AutocastCPU;
  default:
    return key;
  }
}

Plan& Site::plan(const Call& call) {
  return known.findOrMake(call.key, [&] {
    auto plan = std::make_unique<Plan>(*this, call.key, call.sizes());
    enqueue(*plan);
    return plan;
  });
}

const Kernel* Site::withoutKernel(Plan& plan, const Policy& policy, std::int64_t formulaBytes) {
  if (plan.isSettled() && !policy.strict) [[likely]] { // ATen's for good: nothing more to ask
    plan.missed.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  resumeCompiling();
  if (policy.strict || formulaBytes > policy.formulaBytes) {
    waitFor(plan);
    if (const Kernel* kernel = plan.kernel.load(std::memory_order_acquire))
      return kernel;
    if (policy.strict && plan.state == Plan::State::failed)
      throw Error(ErrorKind::infeasible,
                  fmt::format("{} {}: no kernel: {}; without KILN_STRICT ATen's runs", route.name,
                              labelOf(route, plan.key, plan.firstSizes), plan.detail));
  }
  plan.missed.fetch_add(1, std::memory_order_relaxed);
  if (!plan.isSettled() && backend.isCapturing())
    plan.missedInGraph.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

const char* Site::claim(Refusal& one, const char* reason, std::string example) {
  std::lock_guard held(mutex);
  if (const char* known = one.reason.load(std::memory_order_relaxed))
    return known;
  log("{}: {} is not taken: {}", route.name, example, reason);
  one.example = std::move(example);
  one.reason.store(reason, std::memory_order_release);
  return reason;
}

void Site::refuse(const char* reason, const at::Tensor& example, const Policy& policy) {
  auto text = [&] {
    if (!example.defined())
      return std::string("undefined");
    const char* dtype = c10::toString(example.scalar_type());
    if (example.is_nested() || at::isTensorSubclassLike(example)) // these may have no sizes
      return fmt::format("wrapped {}", dtype);
    return fmt::format("[{}] {}", fmt::join(example.sizes(), ", "), dtype);
  };
  count(reason, text);
  // What is cast first may be taken then.
  if (policy.strict && route.layer != Layer::autocast && reason != kEmpty && reason != kSmall &&
      reason != kBelow)
    throw Error(ErrorKind::input, fmt::format("{} of {} is not taken: {}; without KILN_STRICT ATen "
                                              "computes it",
                                              route.name, text(), reason));
}

} // namespace kiln::runtime
