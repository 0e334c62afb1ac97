// One graph a candidate, events around each replay, no synchronisation before the end: the GPU
// never waits for the host between replays.
#include "codegen/backend/Timer.h"

#include "codegen/backend/Fail.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace kiln {

double medianOf(std::vector<double> values) {
  if (values.empty())
    return 0;
  std::sort(values.begin(), values.end());
  std::size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::vector<std::vector<double>>
replayInTurns(const Stream& stream, std::span<const Graph* const> graphs, std::size_t rounds) {
  const std::size_t count = graphs.size();
  std::vector<Event> starts(rounds * count), ends(rounds * count);
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(1); // what comes before a graph counts: it is never long the same
  for (std::size_t round = 0; round < rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t graph : order) {
      const std::size_t place = round * count + graph;
      starts[place].record(stream);
      graphs[graph]->launch(stream);
      ends[place].record(stream);
    }
  }
  stream.synchronize();
  std::vector<std::vector<double>> samples(count);
  for (std::size_t place = 0; place < starts.size(); ++place)
    samples[place % count].push_back(ends[place].microsecondsSince(starts[place]));
  return samples;
}

std::vector<Timing> timeGraph(std::span<const Enqueue> candidates, const TimerOptions& options) {
  if (options.launches < 1 || options.replays < 1 || options.warmups < 0)
    fail(ErrorKind::input,
         "timing needs at least 1 launch and 1 replay and no negative number of warm-ups; given "
         "{}, {} and {}",
         options.launches, options.replays, options.warmups);
  Stream stream;
  std::vector<Graph> graphs;
  for (const Enqueue& candidate : candidates) {
    candidate(stream.get(), 0); // outside the graph first: loads code, shows errors at their call
    stream.synchronize();
    graphs.push_back(Graph::capture(stream, [&](CuStream captured) {
      for (int i = 0; i < options.launches; ++i)
        candidate(captured, i);
    }));
  }
  for (int i = 0; i < options.warmups; ++i)
    for (const Graph& graph : graphs)
      graph.launch(stream);

  std::vector<const Graph*> list;
  for (const Graph& graph : graphs)
    list.push_back(&graph);
  auto samples = replayInTurns(stream, list, static_cast<std::size_t>(options.replays));
  std::vector<Timing> timings(candidates.size());
  for (std::size_t i = 0; i < timings.size(); ++i) {
    Timing& timing = timings[i];
    for (double micros : samples[i])
      timing.samples.push_back(micros / options.launches);
    timing.medianMicros = medianOf(timing.samples);
    timing.minMicros = *std::min_element(timing.samples.begin(), timing.samples.end());
  }
  return timings;
}

} // namespace kiln
