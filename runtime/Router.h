// What every routed op does when it is called; a template over the op's signature, so that nothing
// is boxed. Included by the files of runtime/ops/ only.
//
// An op is a struct with
//   Signature                    ATen's
//   natives                      ATen's own kernels, KILN_NATIVES(name)
//   operands, results            names in the function that module() writes
//   module(key)                  its MLIR text: a std::string, or a RouteText
//   describe(call, args...)      fills the key, or says why Kiln does not take the call
//   run(launch, args...)         makes the results as ATen would and launches
//   instead(call, args...)       where results of ATen's own would show whether there is a kernel:
//                                random numbers, or what autograd saves. Runs in its place without
//                                one; whatever is drawn or saved is as run() does it
//   expected(ours, args...)      where ATen's results are others each time: what it makes of ours
//   compared(results)            tensors to compare, where the results are not all
//   example(rows)                a tuple of arguments for a call with all operands and results
//   layer                        instead of an example, of an op that is not ATen's one kernel
//   note, tally, label, usual    where there is one: see Route
#pragma once

#include "runtime/Call.h"
#include "runtime/Exact.h"
#include "runtime/Launch.h"
#include "runtime/Route.h"
#include "runtime/Site.h"
#include "runtime/WrittenNorm.h"
#include "runtime/baseline/Trial.h"

#include <ATen/core/boxing/impl/boxing.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>
#include <tuple>

namespace kiln::runtime {

inline std::vector<at::Tensor> tensorsOf(const at::Tensor& one) {
  return {one};
}
inline std::vector<at::Tensor> tensorsOf(const auto& several) {
  return std::apply([](const auto&... tensor) { return std::vector<at::Tensor>{tensor...}; },
                    several);
}

template <typename Signature> struct Natives {
  Signature* gpu = nullptr;
  Signature* cpu = nullptr;
};
#if KILN_TORCH_CUDA
#define KILN_GPU_NATIVE(op) &at::cuda::op
#else
#define KILN_GPU_NATIVE(op) nullptr
#endif
#define KILN_NATIVES(op) {KILN_GPU_NATIVE(op), &at::cpu::op}

/// Whether the dispatcher does not know it, so that nothing was there before it.
template <typename Op> constexpr bool isOwn() {
  if constexpr (requires { Op::layer; })
    return Op::layer == Layer::gradient;
  return false;
}

/// The kernel of an op that was there before: ATen's directly, another library's boxed.
template <typename Op, Place place, typename Signature = typename Op::Signature> class Previous;

template <typename Op, Place place, typename Result, typename... Args>
class Previous<Op, place, Result(Args...)> {
 public:
  static void install(Site& mine) {
    site = &mine;
    site->previousIsATen &= native != nullptr;
  }
  static Result call(Args... args) {
    if constexpr (isOwn<Op>())
      return native(args...);
    else
      return callPrevious(args...);
  }

 protected:
  static inline Site* site = nullptr;

 private:
  static Result callPrevious(Args... args) {
    if (site->previousIsATen || !site->previous) // or our own, where ATen has none
      if constexpr (native != nullptr)
        return native(args...);
    TORCH_CHECK_NOT_IMPLEMENTED(site->previous, "aten::", site->route.name,
                                ": Kiln does not take this call, and ATen has no kernel for it");
    const NoWrittenNorm others; // whatever it is made of
    torch::jit::Stack stack = c10::impl::boxArgs<Args...>(args...);
    site->previous->callBoxed(site->previous->opHandle(), c10::DispatchKeySet(site->key()), &stack);
    return c10::impl::PopResult<Result>::call(stack);
  }

  static constexpr auto native = place == Place::gpu ? Op::natives.gpu : Op::natives.cpu;
};

template <typename Op, Place place, typename Signature = typename Op::Signature> class Router;

template <typename Op, Place place, typename Result, typename... Args>
class Router<Op, place, Result(Args...)> : Previous<Op, place> {
  using Below = Previous<Op, place>;
  using Below::site;

 public:
  static void install(torch::Library& library, Site& mine) {
    Below::install(mine);
    if constexpr (!isOwn<Op>())
      library.impl(mine.route.name, torch::dispatch(mine.key(), &run));
  }

  static Result run(Args... args) {
    const Policy& policy = currentPolicy();
    if (!policy.takes(place, site->route.index))
      return Below::call(args...);
    Call call;
    if (Reason why = Op::describe(call, args...)) {
      site->refuse(why, first(args...), policy);
      return Below::call(args...);
    }
    Plan& plan = planOf(call);
    const Kernel* kernel = plan.kernel.load(std::memory_order_acquire);
    if (!kernel) {
      kernel = site->withoutKernel(plan, policy, call.formulaBytes);
      if (!kernel)
        return withoutKernel(call, args...);
    }
    plan.used.fetch_add(1, std::memory_order_relaxed);
    const c10::OptionalDeviceGuard guard(first(args...).device());
    if (policy.mode == Mode::verify && !site->backend.isCapturing())
      return verified(Launch(plan, *kernel, call, true), policy, args...);
    return Op::run(Launch(plan, *kernel, call), args...);
  }

 private:
  static const at::Tensor& first(const at::Tensor& x, const auto&...) { return x; }

  /// A thread mostly asks for what it asked for last.
  static Plan& planOf(const Call& call) {
    static thread_local Plan* last = nullptr;
    if (!last || !(last->key == call.key))
      last = &site->plan(call);
    return *last;
  }

  /// By ATen, of a call that Kiln takes.
  static Result withoutKernel(const Call& call, Args... args) {
    if constexpr (requires { Op::instead(call, args...); }) {
      const c10::OptionalDeviceGuard guard(first(args...).device());
      return Op::instead(call, args...);
    } else {
      return Below::call(args...);
    }
  }

  static Result verified(const Launch& launch, const Policy& policy, Args... args) {
    Result ours = Op::run(launch, args...);
    const auto byATen = [&](const auto&... given) -> Result {
      const Guard off(Mode::off); // what it calls is ATen's too
      if constexpr (requires { Op::expected(ours, given...); })
        return Op::expected(ours, given...);
      else
        return withoutKernel(launch.call, given...);
    };
    const auto compared = [](const Result& results) {
      if constexpr (requires { Op::compared(results); })
        return Op::compared(results);
      else
        return tensorsOf(results);
    };
    Result theirs = byATen(args...);
    const auto exact = [&] { return compared(byATen(inDouble(args)...)); };
    return launch.agrees(compared(ours), compared(theirs), exact, policy) ? ours : theirs;
  }
};

template <typename Op> void install(torch::Library& library, Site& site) {
  if (site.backend.place == Place::gpu)
    Router<Op, Place::gpu>::install(library, site);
  else
    Router<Op, Place::cpu>::install(library, site);
}

template <typename Op> Trial trialOf(const Rows& rows, Place place) {
  const auto arguments = std::make_shared<decltype(Op::example(rows))>(Op::example(rows));
  Trial trial;
  std::apply(
      [&](const auto&... argument) {
        Call call;
        if (!Op::describe(call, argument...))
          trial.module = Op::module(call.key);
        auto add = [&](const auto& one) {
          if constexpr (std::is_same_v<decltype(one), const at::Tensor&>)
            trial.bytes += static_cast<std::int64_t>(one.nbytes());
        };
        (add(argument), ...);
      },
      *arguments);
  if (const auto native = place == Place::gpu ? Op::natives.gpu : Op::natives.cpu)
    trial.call = [native, arguments] { return tensorsOf(std::apply(native, *arguments)); };
  return trial;
}

/// Calls an op that the dispatcher does not know, on tensors that lie where `x` does.
template <typename Op> auto callRouted(const at::Tensor& x, const auto&... args) {
  return x.is_cpu() ? Router<Op, Place::cpu>::run(args...) : Router<Op, Place::gpu>::run(args...);
}

template <typename Op>
constexpr Route routeOf(const char* name, const char* family, bool backward) {
  static_assert(std::size(Op::operands) + std::size(Op::results) <= maxSlots);
  Route route{name,        family,   Op::operands,
              Op::results, backward, [](const Key& key) -> RouteText { return Op::module(key); },
              &install<Op>};
  if constexpr (requires { Op::layer; })
    route.layer = Op::layer;
  else
    route.trial = &trialOf<Op>;
  if constexpr (requires { Op::onlyChosen; })
    route.onlyChosen = Op::onlyChosen;
  if constexpr (requires { Op::note; })
    route.note = Op::note;
  if constexpr (requires { &Op::tally; })
    route.tally = &Op::tally;
  if constexpr (requires { &Op::label; })
    route.label = &Op::label;
  if constexpr (requires { &Op::usual; })
    route.usual = &Op::usual;
  return route;
}

} // namespace kiln::runtime
