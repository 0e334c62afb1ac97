// Times of GPU work by replaying CUDA graphs: no launch cost of the host in the figure. Candidates
// take turns within every round, in an order that changes, so that clock and temperature drift hit
// all of them alike.
#pragma once

#include "codegen/backend/Driver.h"

namespace kiln {

/// Enqueues the work once; `index` counts 0, 1, ... within a graph, to rotate through buffers
/// larger than the L2 cache.
using Enqueue = std::function<void(CuStream stream, int index)>;

struct TimerOptions {
  int launches = 20; // in one graph
  int warmups = 2;   // replays of each graph that do not count
  int replays = 15;  // that count
};

struct Timing {
  double medianMicros = 0; // of one launch
  double minMicros = 0;
  std::vector<double> samples; // one a replay, in order: sample i of all candidates is one round
};

/// Results in the order of the candidates. Throws Error(device), or whatever a callback throws.
std::vector<Timing> timeGraph(std::span<const Enqueue> candidates,
                              const TimerOptions& options = {});

/// Microseconds of each replay, by graph and round: within a round each is replayed once. Nothing
/// is synchronised before the end.
std::vector<std::vector<double>>
replayInTurns(const Stream& stream, std::span<const Graph* const> graphs, std::size_t rounds);

double medianOf(std::vector<double> values); // 0 for none

} // namespace kiln
