// See WrittenNorm.h. aten::mean.dim and aten::rsqrt are ATen's as before: a mean over a last
// dimension that is kept, and then, in the same thread, an inverse root of as many numbers, are a
// norm that somebody has written out.
#include "runtime/WrittenNorm.h"

#include "runtime/Router.h"

#include <ATen/ops/mean_cpu_dispatch.h>
#include <ATen/ops/rsqrt_cpu_dispatch.h>
#if KILN_TORCH_CUDA
#include <ATen/ops/mean_cuda_dispatch.h>
#include <ATen/ops/rsqrt_cuda_dispatch.h>
#endif

#include <fmt/format.h>
#include <utility>

namespace kiln::runtime {

extern Route rmsNorm;

namespace written_norm {
namespace {

using at::Tensor;

constexpr char kWritten[] =
    "a norm written out in single ops, a kernel each; as one op Kiln takes it: "
    "torch.nn.functional.rms_norm (in C++ at::rms_norm or kiln::nn::RMSNorm, or all of it in "
    "kiln::compile), layer_norm where a mean is subtracted";

struct Mean {
  using Signature = Tensor(const Tensor&, at::OptionalIntArrayRef, bool,
                           std::optional<at::ScalarType>);
  static constexpr Natives<Signature> natives = KILN_NATIVES(mean);
};
struct Rsqrt {
  using Signature = Tensor(const Tensor&);
  static constexpr Natives<Signature> natives = KILN_NATIVES(rsqrt);
};

template <Place place> struct MeanObserver : Previous<Mean, place> {
  static Tensor run(const Tensor& x, at::OptionalIntArrayRef dims, bool keeps,
                    std::optional<at::ScalarType> dtype) {
    Tensor mean = Previous<Mean, place>::call(x, dims, keeps, dtype);
    const std::int64_t rank = x.dim();
    if (keeps && rank > 1 && dims && dims->size() == 1 &&
        (dims->front() == -1 || dims->front() == rank - 1)) {
      WrittenNorm& seen = WrittenNorm::ofThread();
      seen.rows = mean.numel();
      seen.width = x.size(-1);
    }
    return mean;
  }
};

template <Place place> struct RsqrtObserver : Previous<Rsqrt, place> {
  using Below = Previous<Rsqrt, place>;

  static Tensor run(const Tensor& x) {
    WrittenNorm& seen = WrittenNorm::ofThread();
    if (const std::int64_t rows = std::exchange(seen.rows, 0);
        rows != 0 && rows == x.numel() && x.dim() > 1 && x.size(-1) == 1 && !seen.isMuted &&
        currentPolicy().takes(place, rmsNorm.index))
      Below::site->count(kWritten, [&] {
        return fmt::format("{}x{} {}", rows, seen.width, c10::toString(x.scalar_type()));
      });
    return Below::call(x);
  }
};

template <typename Observer> void observe(torch::Library& library, Site& site) {
  Observer::install(site);
  library.impl(site.route.name, torch::dispatch(site.key(), &Observer::run));
}

template <template <Place> typename Observer> void installFor(torch::Library& library, Site& site) {
  if (site.backend.place == Place::gpu)
    observe<Observer<Place::gpu>>(library, site);
  else
    observe<Observer<Place::cpu>>(library, site);
}

/// Nothing that a kernel would need.
template <template <Place> typename Observer> constexpr Route observerOf(const char* name) {
  return {name, "rms_norm", {}, {}, false, nullptr, &installFor<Observer>};
}

constinit Route mean = observerOf<MeanObserver>("mean.dim");
constinit Route rsqrt = observerOf<RsqrtObserver>("rsqrt");

} // namespace
} // namespace written_norm

std::span<Route* const> observers() {
  static Route* const all[] = {&written_norm::mean, &written_norm::rsqrt};
  return all;
}

} // namespace kiln::runtime
