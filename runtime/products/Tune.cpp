// See Tune.h.
#include "runtime/products/Tune.h"

#include "runtime/Backends.h"
#include "runtime/Log.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>
#include <algorithm>
#include <cmath>

namespace kiln::runtime {

namespace {

using at::Tensor;

constexpr double kGain = 0.99; // of ATen's time: what is faster by less is noise
/// Of ATen's error: both are that of rounding the result, but for the order of sums in fp32.
constexpr double kError = 1.001;
constexpr std::size_t kFinalists = 4, kTurns = 3;

double medianOf(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

class Tuner {
 public:
  Tuner(const Product& product, const BlasLt& lt, const ProductCall& call)
      : product(product), lt(lt), call(call) {}

  Choice run() {
    const double whole = timeOf(0, 1, kTurns);
    calls = std::clamp<std::size_t>(
        static_cast<std::size_t>(gpuBackend().measuring().microseconds / std::max(whole, 1.0)), 1,
        32);
    for (const Algorithm& one : lt.candidates())
      if (lt.takes(one) && lt.launch(one, call.a, call.b, target(), call.row))
        candidates.push_back(one);
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t i = 1; i <= candidates.size(); ++i)
      order.emplace_back(timeOf(i, calls, kTurns), i);
    std::ranges::sort(order);
    order.resize(std::min(order.size(), kFinalists));
    std::vector<double> own;
    std::vector<std::vector<double>> theirs(order.size());
    for (std::size_t turn = 0; turn < kTurns; ++turn) {
      own.push_back(timeOf(0, calls, kTurns));
      for (std::size_t i = 0; i < order.size(); ++i)
        theirs[i].push_back(timeOf(order[i].second, calls, kTurns));
    }
    Choice choice{product, {}, 0, medianOf(own)};
    double least = kGain * choice.byDefault;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Algorithm& one = candidates[order[i].second - 1];
      if (const double micros = medianOf(theirs[i]); micros < least && isExact(one)) {
        least = choice.micros = micros;
        choice.algorithm = one;
      }
    }
    return choice;
  }

 private:
  /// Memory for a result.
  Tensor target() const { return call.c.defined() ? call.c.clone() : emptyResult(call.a, call.b); }
  /// us of a call: 0 is ATen's own.
  double timeOf(std::size_t which, std::size_t count, std::size_t rounds) const {
    const Tensor c = target();
    return medianOf(gpuBackend().time(
        [&](std::size_t) {
          if (which == 0)
            call.byATen(c);
          else
            lt.launch(candidates[which - 1], call.a, call.b, c, call.row);
        },
        count, rounds));
  }
  /// Of the first rows, of the first of a batch.
  bool isExact(const Algorithm& algorithm) const {
    constexpr std::int64_t rows = 64;
    const auto firstOf = [&](const Tensor& all) {
      const Tensor one = all.dim() == 3 ? all.select(0, 0) : all;
      return one.narrow(0, 0, std::min(rows, one.size(0))).to(at::kDouble);
    };
    const Tensor b = call.b.dim() == 3 ? call.b.select(0, 0) : call.b;
    Tensor exact = at::mm(firstOf(call.a), b.to(at::kDouble));
    if (call.c.defined())
      exact = exact + firstOf(call.c);
    if (call.row.defined())
      exact = exact + call.row.to(at::kDouble);
    const Tensor ours = target(), theirs = call.byATen(target());
    lt.launch(algorithm, call.a, call.b, ours, call.row);
    const auto errorOf = [&](const Tensor& result) { // root mean square
      return std::sqrt((firstOf(result) - exact).square().mean().item().toDouble());
    };
    const double error = errorOf(ours), byATen = errorOf(theirs);
    if (error <= kError * byATen)
      return true;
    log("products: {}: an algorithm's error is {:.3g}, ATen's {:.3g}: not taken", textOf(product),
        error, byATen);
    return false;
  }

  const Product& product;
  const BlasLt& lt;
  const ProductCall& call;
  std::vector<Algorithm> candidates;
  std::size_t calls = 1;
};

} // namespace

Choice tuneProduct(const Product& product, const BlasLt& lt, const ProductCall& call) {
  return Tuner(product, lt, call).run();
}

} // namespace kiln::runtime
