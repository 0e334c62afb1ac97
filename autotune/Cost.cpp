// See Cost.h. The constants describe a Hopper-class GPU; others scale with their bandwidth.
#include "autotune/Cost.h"

#include <algorithm>
#include <cmath>

namespace kiln::autotune {
namespace {

// Measured on an H200 (bench/ holds the programs): what a copy reaches of the nominal
// bandwidth, the latency that bytes in flight must cover, and fixed costs in microseconds.
constexpr double kReachable = 0.88;
constexpr double kLatency = 1.35;
constexpr double kLaunch = 1.9;              // start and drain of a kernel
constexpr double kProgrammaticGain = 0.6;    // of which programmatic launch hides this
constexpr double kFinishKernel = 1.6;        // the kernel that adds up partial sums
constexpr double kPersistentLoss = 0.06;     // a resident grid against one block a tile
constexpr double kBarrier = 0.02;            // an exchange through shared memory, a wave
constexpr double kNarrowAccess = 0.35;       // loss of a 4-byte access against 16 bytes

/// Share of the bandwidth that accesses of this many bytes a lane can reach.
double accessQuality(const rows::Schedule& s, const rows::Facts& facts) {
  double worst = 1.0;
  auto look = [&](const rows::Facts::Stream& stream) {
    double bytes = static_cast<double>(std::min(s.vector, stream.widest) * stream.bytes);
    double quality = bytes >= 16 ? 1.0 : 1.0 - kNarrowAccess * (4.0 - std::log2(bytes)) / 2.0;
    // A vector read in pieces leaves gaps between the lanes.
    if (stream.widest < s.vector)
      quality *= std::sqrt(static_cast<double>(stream.widest) / static_cast<double>(s.vector));
    worst = std::min(worst, std::max(quality, 0.05));
  };
  for (const auto& stream : facts.inputs)
    look(stream);
  for (const auto& stream : facts.outputs)
    look(stream);
  return worst;
}

/// Lanes that hold columns, of all lanes.
double usedLanes(const rows::Schedule& s, const rows::Facts& facts) {
  return static_cast<double>(facts.width) /
         static_cast<double>(s.chunks(facts.width) * s.lanes * s.vector);
}

}  // namespace

Prediction predict(const rows::Schedule& s, const rows::Facts& facts, const Target& target,
                   double rows) {
  if (facts.rows >= 0)
    rows = static_cast<double>(facts.rows);
  Prediction result;
  const double bandwidth = target.memoryGBs * 1e-3 * kReachable;  // MB a millisecond = bytes/us e-6
  const double bytes = facts.bytes(rows);
  result.copyMicroseconds = kLaunch + bytes / (bandwidth * 1e6);

  double perThread = 0;
  for (const auto& stream : facts.inputs)
    perThread += static_cast<double>(s.rows * s.chunks(facts.width) * s.vector * stream.bytes);
  const double resident = static_cast<double>(s.blocks * s.threads);
  result.bytesInFlight = resident * perThread * usedLanes(s, facts);
  // Many threads with one access each hide latency better than few with many.
  double parallel = 0.85 + 0.15 * std::min(1.0, resident / 2048.0);
  double needed = bandwidth * 1e6 * kLatency / target.multiprocessors;
  double inFlight = std::min(1.0, (result.bytesInFlight + 1.0) / needed);
  double reached = bandwidth * 1e6 * std::pow(inFlight, 0.7) * parallel * accessQuality(s, facts);

  double blocks = std::ceil(rows / static_cast<double>(s.rowsPerBlock()));
  double slots = static_cast<double>(s.blocks * target.multiprocessors);
  result.waves = blocks / slots;
  double time = bytes / reached;
  if (result.waves < 1.0)  // part of the machine idles; latency dominates
    time = std::max(time, kLatency * (1.0 + 0.5 * facts.reductions));
  if (s.grid == rows::Grid::resident)
    time *= 1.0 + kPersistentLoss;
  else
    time *= 1.0 + 0.02 * (std::ceil(result.waves) / std::max(result.waves, 0.1) > 1.5 ? 1.0 : 0.0);
  if (s.lanes > 32)
    time += kBarrier * facts.passes * std::ceil(result.waves);
  if (s.keep == rows::Keep::shared)
    time *= 1.03;
  time += kLaunch - (s.launch == rows::Launch::programmatic ? kProgrammaticGain : 0.0);
  if (facts.hasSums()) {
    double lines = std::min(blocks, slots);
    double partials = lines * static_cast<double>(facts.columnSums * facts.width + facts.totalSums) * 4;
    time += kFinishKernel + 2.0 * partials / (bandwidth * 1e6);
  }
  result.microseconds = time;
  return result;
}

}  // namespace kiln::autotune
