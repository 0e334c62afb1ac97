// See Cost.h. The constants are a fit to 5,500 timed schedules of AlphaFold's LayerNorms, forward
// and backward, fp32 and bf16, on an H200 (bench/sweep.cpp makes the data). Other GPUs scale with
// their bandwidth and their number of multiprocessors.
#include "autotune/Cost.h"

#include <algorithm>
#include <cmath>

namespace kiln::autotune {
namespace {

constexpr double kReachable = 0.899;     // of the nominal bandwidth, before what follows
constexpr double kLatency = 0.169;       // us that bytes in flight must cover
constexpr double kUnderfilled = 0.154;   // exponent of the loss when they do not
constexpr double kNarrow = 0.103;        // loss for each halving of a 16-byte access
constexpr double kScattered = 0.102;     // loss for each halving of a 128-byte piece of a row
constexpr double kAlone = 0.031;         // loss of one access in flight a thread
constexpr double kOperation = 1.19;      // instructions a scalar operation
constexpr double kColumnSum = 4.9;       // instructions an element and column sum
constexpr double kExchange = 1.0;        // instructions a step of an exchange between lanes
constexpr double kOverlap = 2.64;        // how well memory and arithmetic overlap
constexpr double kIdleThreads = 0.12;    // loss with no thread resident
constexpr double kLargeBlock = 0.074;    // loss of a block of 1024 threads that runs once
constexpr double kSerial = 0.006;        // us an element that a thread holds, where blocks are few
constexpr double kBarrier = 0.0147;      // us a barrier, each wave
constexpr double kShared = 0.023;        // loss of rows kept in shared memory
constexpr double kLaunch = 1.48;         // us to start and drain a kernel
constexpr double kPlainLaunch = 0.5;     // us more without programmatic launch
constexpr double kFinish = 2.23;         // us of the kernel that adds up partial sums
constexpr double kPartials = 0.173;      // share of their traffic that is not hidden
constexpr double kCombine = 0.86;        // steps to combine column sums in a block
constexpr double kClock = 1700.0;        // cycles a us
constexpr double kLanesPerCycle = 128.0; // of a multiprocessor

/// Loss factor of how the tensors are accessed: pieces below 128 bytes, accesses below 16.
double accessLoss(const rows::Schedule& s, const rows::Facts& facts) {
  double worst = 1.0;
  auto look = [&](const rows::Facts::Stream& stream) {
    double access =
        std::min<double>(16.0, double(std::min(s.vector, stream.widest) * stream.bytes));
    double piece = 512.0;
    if (s.chunks(facts.width) > 1)
      piece = double(std::min<std::int64_t>(s.lanes, 32) * s.vector * stream.bytes);
    // A vector that is moved in parts leaves gaps between the lanes of one access.
    double gaps = double(s.vector) / double(std::min(s.vector, stream.widest));
    double loss = (1.0 + kNarrow * std::log2(16.0 / access)) *
                  (1.0 + kScattered * std::max(0.0, std::log2(128.0 / piece))) * std::sqrt(gaps);
    worst = std::max(worst, loss);
  };
  for (const auto& stream : facts.inputs)
    look(stream);
  for (const auto& stream : facts.outputs)
    look(stream);
  return worst;
}

double bytesHeld(const rows::Schedule& s, const rows::Facts& facts) {
  double held = 0.0;
  for (const auto& stream : facts.inputs)
    held += double(stream.bytes);
  return held * double(s.rows) * double(facts.width) / double(s.lanes);
}

} // namespace

Prediction predict(const rows::Schedule& s, const rows::Facts& facts, const Target& target,
                   double rows) {
  if (facts.rows >= 0)
    rows = double(facts.rows);
  Prediction result;
  const double bandwidth = target.memoryGBs * 1e3 * kReachable; // bytes a us
  const double machines = target.multiprocessors;
  const double bytes = facts.bytes(rows);
  const double resident = double(s.blocks * s.threads);
  const double blocks = std::ceil(rows / double(s.rowsPerBlock()));
  const double slots = double(s.blocks) * machines;
  result.copyMicroseconds = kLaunch + bytes / bandwidth;
  result.bytesInFlight = resident * bytesHeld(s, facts);
  result.waves = blocks / slots;

  double wanted = bandwidth * kLatency / machines / std::max(result.bytesInFlight, 1.0);
  double memory =
      bytes / bandwidth * accessLoss(s, facts) * std::pow(std::max(1.0, wanted), kUnderfilled);
  double held = double(s.chunks(facts.width) * s.vector);
  double steps = 1.0 + std::log2(double(std::min<std::int64_t>(s.lanes, 32)));
  double issued = rows * double(s.lanes) *
                  (held * (kOperation * facts.operations + kColumnSum * facts.columnSums) +
                   kExchange * steps * std::max(facts.reductions, 1) / 2.0);
  double arithmetic = issued / (machines * kLanesPerCycle * kClock);
  double time = std::pow(std::pow(memory, kOverlap) + std::pow(arithmetic, kOverlap), 1 / kOverlap);
  time *= 1.0 + kIdleThreads * (1.0 - std::min(1.0, resident / double(target.threadsPerSM)));
  double accesses = double(facts.inputs.size()) * double(s.rows * s.chunks(facts.width)) *
                    std::max(1.0, double(s.vector) / 8.0);
  time *= 1.0 + kAlone * std::max(0.0, 1.0 - std::log2(std::max(accesses, 1.0)));
  if (s.grid == rows::Grid::oneShot)
    time *= 1.0 + kLargeBlock * double(std::max<std::int64_t>(0, s.threads - 64)) / 1024.0;
  time += kSerial * held * double(s.rows) / std::max(1.0, result.waves);
  if (s.lanes > 32)
    time += kBarrier * facts.passes * std::max(1.0, result.waves);
  if (s.keep == rows::Keep::shared)
    time *= 1.0 + kShared;
  time += kLaunch + (s.launch == rows::Launch::plain ? kPlainLaunch : 0.0);
  if (facts.hasSums()) {
    double lines = std::min(blocks, slots);
    double columns = double(facts.columnSums * facts.width + facts.totalSums);
    double teams = double(s.threads) / double(std::max<std::int64_t>(s.lanes, 32));
    time += kFinish + kPartials * lines * columns * 8.0 / bandwidth +
            kCombine * teams * columns / (kLanesPerCycle * kClock);
  }
  result.microseconds = time;
  return result;
}

} // namespace kiln::autotune
