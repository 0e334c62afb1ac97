// See Cost.h. The bytes that are in flight count, and for sums how many partial ones there are.
#include "codegen/families/multi_tensor/cost/Cost.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace kiln::multi_tensor {
namespace {

/// The logarithm of what keeps a kernel from the time of a copy of its bytes.
double lossOf(const Schedule& s, const Facts& facts, double inFlight,
              const model::CostConstants& k) {
  using model::halvings;
  return k.underfilled * halvings(inFlight, k.wanted) +
         k.narrow * halvings(double(s.vector * facts.widestBytes), 16.0) +
         k.smallBlock * halvings(double(s.threads), 128.0) +
         k.largeBlock * halvings(256.0, double(s.threads));
}

} // namespace

model::Cost costOf(const Schedule& s, const Facts& facts, const Target& target, double elements,
                   const model::CostConstants& k) {
  const double bytes = elements * (facts.bytesRead + facts.bytesWritten);
  const double bandwidth = target.memoryGBs * 1e3 * k.reachable;
  model::Cost result;
  result.copy = k.launch + bytes / bandwidth;
  result.bytesInFlight =
      double(s.blocks * s.threads * s.vector * loadsTogether(s, facts) * facts.bytesRead) /
      facts.parts; // of a part's block
  const double fitting = double(s.blocks) * target.multiprocessors;
  const double tiles = std::ceil(elements / double(chunkElements * s.chunks)) * facts.parts;
  const double blocks = isResident(facts) ? std::min(tiles, fitting) : tiles;
  result.waves = blocks / fitting;
  result.total = k.launch +
                 bytes / bandwidth * std::exp(lossOf(s, facts, result.bytesInFlight, k)) +
                 k.tie * double(s.blocks) + (s.launch == Launch::plain ? k.plainLaunch : 0.0);
  if (facts.hasSums)
    result.total += k.finish + k.partials * blocks;
  return result;
}

/// What is done to the elements is not counted, because optimizers read much for it.
model::Work workOf(const Facts& facts, double elements) {
  model::Work work;
  work.bytesRead = elements * facts.bytesRead;
  work.bytesWritten = elements * facts.bytesWritten;
  work.hasSums = facts.hasSums;
  work.summed = work.hasSums ? 1.0 : 0.0;
  work.rows = elements / double(chunkElements);
  return work;
}

model::Space enumerate(const Facts& facts, const Target& target, double elements,
                       model::Listing listing) {
  model::Sorter sorter(listing);
  Schedule s = defaultSchedule(facts, target);
  const Schedule usual = s;
  std::set<std::int64_t> blockCounts{1, 2, 3, 4, 5, 6, 8, 12, 16, usual.blocks};
  for (std::int64_t vector : {usual.vector, usual.vector / 2})
    for (std::int64_t threads : {64, 128, 256, 512})
      for (std::int64_t chunks : {1, 2, 4, 8})
        for (std::int64_t blocks : blockCounts) {
          s.vector = std::max<std::int64_t>(vector, 1);
          s.threads = threads;
          s.chunks = chunks;
          s.blocks = blocks;
          std::vector<Violation> broken = check(s, facts, target);
          if (broken.empty())
            sorter.add(s.general(), costOf(s, facts, target, elements));
          else
            sorter.refuse([&] { return broken; });
        }
  model::Space space = sorter.take(cheapestMicroseconds(workOf(facts, elements), target));
  auto isUsual = [general = usual.general()](const model::Candidate& candidate) {
    return candidate.schedule == general;
  };
  std::ranges::stable_partition(space.feasible, isUsual);
  return space;
}

} // namespace kiln::multi_tensor
