// See DistKernels.h.
#include "bench/DistKernels.h"

#include "models/common/Device.h"
#include "models/common/Graph.h"

#include <ATen/ATen.h>
#include <chrono>
#include <kiln/bucket_ops.h>
#include <kiln/optim.h>
#include <optional>

namespace kiln::bench {

namespace {

using at::Tensor;
using Clock = std::chrono::steady_clock;

/// Gradients in one buffer, as DataParallel keeps them, and what travels instead of it.
struct Bucket {
  Tensor buffer, wire;
  std::vector<Tensor> gradients, sent; // views of both
};

Bucket makeBucket(const std::vector<std::int64_t>& lengths, double mib, at::Device device) {
  constexpr std::int64_t aligned = 64; // elements
  const auto most = std::int64_t(mib * 0x1p18);
  std::vector<std::pair<std::int64_t, std::int64_t>> places; // begin, length
  std::int64_t end = 0;
  for (std::size_t i = 0; end < most; i = (i + 1) % lengths.size()) {
    const std::int64_t length = std::min(lengths[i], most - end);
    places.emplace_back(end, length);
    end = (end + length + aligned - 1) / aligned * aligned;
  }
  const auto options = at::TensorOptions().device(device);
  Bucket made{at::randn({end}, options), at::zeros({end}, options.dtype(at::kBFloat16)), {}, {}};
  for (const auto& [begin, length] : places) {
    made.gradients.push_back(made.buffer.narrow(0, begin, length));
    made.sent.push_back(made.wire.narrow(0, begin, length));
  }
  return made;
}

/// Microseconds a call of work(i), i in turn, all of them again and again behind a warm-up; on a
/// GPU as replays of a graph, lest the host's time be measured.
double microsecondsOf(std::size_t count, at::Device device,
                      const std::function<void(std::size_t)>& work) {
  constexpr int warmups = 3;
  const int times = device.is_cuda() ? 50 : 5;
  std::function<void()> round = [&] {
    for (std::size_t i = 0; i < count; ++i)
      work(i);
  };
  for (int time = 0; time < warmups; ++time)
    round();
  std::optional<models::StepGraph> graph;
  if (device.is_cuda()) {
    graph.emplace(device, round);
    round = [&] { graph->replay(); };
    round();
  }
  models::synchronize(device);
  const Clock::time_point begin = Clock::now();
  for (int time = 0; time < times; ++time)
    round();
  models::synchronize(device);
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() /
         double(std::size_t(times) * count);
}

class Kernels {
 public:
  Kernels(std::vector<Bucket> buckets, double mib, at::Device device,
          const std::function<void(nlohmann::ordered_json)>& print)
      : buckets(std::move(buckets)), mib(mib), device(device), print(print) {}

  void copies(const char* name, double scale, bool isShort) {
    std::vector<std::unique_ptr<optim::ScaledCopy>> each;
    for (std::size_t i = 0; i < buckets.size(); ++i)
      each.push_back(std::make_unique<optim::ScaledCopy>(scale));
    show(name, elements() * (isShort ? 6 : 8), [&](std::size_t i) {
      each[i]->run(buckets[i].gradients, isShort ? buckets[i].sent : buckets[i].gradients);
      return each[i]->launches();
    });
  }

  /// What a rank of so many does with its part of what they sent.
  void sums(std::int64_t ranks) {
    std::vector<std::unique_ptr<optim::OrderedSum>> each;
    std::vector<std::vector<Tensor>> received;
    std::vector<Tensor> mine;
    const std::int64_t part = buckets[0].wire.numel() / ranks;
    for (const Bucket& bucket : buckets) {
      each.push_back(std::make_unique<optim::OrderedSum>());
      received.push_back(bucket.wire.narrow(0, 0, part * ranks).chunk(ranks));
      mine.push_back(bucket.buffer.view(at::kBFloat16).narrow(0, 0, part));
    }
    show(("sum of " + std::to_string(ranks) + " ranks' bf16").c_str(),
         double(part * (2 * ranks + 2)), [&](std::size_t i) {
           each[i]->run(received[i], mine[i]);
           return each[i]->launches();
         });
  }

  void squares() {
    std::vector<std::unique_ptr<optim::SquareSum>> each;
    for (std::size_t i = 0; i < buckets.size(); ++i)
      each.push_back(std::make_unique<optim::SquareSum>());
    show("sum of squares", elements() * 4, [&](std::size_t i) {
      each[i]->run(buckets[i].gradients);
      return each[i]->launches();
    });
  }

  void updates(const char* name, double clip) {
    std::vector<std::unique_ptr<optim::AdamW>> each;
    for (const Bucket& bucket : buckets) {
      std::vector<Tensor> parameters;
      for (const Tensor& gradient : bucket.gradients) {
        parameters.push_back(at::zeros_like(gradient).requires_grad_());
        parameters.back().mutable_grad() = gradient;
      }
      each.push_back(std::make_unique<optim::AdamW>(parameters, torch::optim::AdamWOptions(1e-4),
                                                    optim::AdamWExtras{.maxGradNorm = clip}));
    }
    show(name, elements() * (clip > 0 ? 32 : 28), [&](std::size_t i) {
      each[i]->step();
      return each[i]->launches();
    });
  }

 private:
  double elements() const {
    double sum = 0;
    for (const Tensor& one : buckets[0].gradients)
      sum += double(one.numel());
    return sum;
  }

  void show(const char* name, double bytes, const std::function<std::size_t(std::size_t)>& work) {
    std::size_t launches = 0;
    const double took =
        microsecondsOf(buckets.size(), device, [&](std::size_t i) { launches = work(i); });
    std::vector<Tensor> from, to; // half is read, half is written
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      from.push_back(at::zeros({std::int64_t(bytes / 2)}, at::device(device).dtype(at::kByte)));
      to.push_back(at::empty_like(from.back()));
    }
    const double copy =
        microsecondsOf(buckets.size(), device, [&](std::size_t i) { to[i].copy_(from[i]); });
    print({{"what", "kernel"},
           {"kernel", name},
           {"bucket_mib", mib},
           {"tensors", buckets[0].gradients.size()},
           {"device", device.str()},
           {"bytes", bytes},
           {"launches", launches},
           {"microseconds", took},
           {"gb_per_s", bytes / took / 1e3},
           {"copy_microseconds", copy},
           {"share_of_copy", copy / took}});
  }

  std::vector<Bucket> buckets;
  double mib;
  at::Device device;
  const std::function<void(nlohmann::ordered_json)>& print;
};

} // namespace

void benchDistKernels(const std::vector<std::int64_t>& lengths, double mib, at::Device device,
                      const std::function<void(nlohmann::ordered_json)>& print) {
  const double cacheMib = device.is_cuda() ? 512 : 64; // several times the cache
  std::vector<Bucket> buckets;
  while (double(buckets.size()) * mib < cacheMib)
    buckets.push_back(makeBucket(lengths, mib, device));
  Kernels kernels(std::move(buckets), mib, device, print);
  kernels.copies("scaled in place", 0.5, /*isShort=*/false);
  kernels.copies("scaled into bf16", 0.5, /*isShort=*/true);
  for (const std::int64_t ranks : {2, 4, 8})
    kernels.sums(ranks);
  kernels.squares();
  kernels.updates("AdamW", 0);
  kernels.updates("clip and AdamW", 1);
}

} // namespace kiln::bench
