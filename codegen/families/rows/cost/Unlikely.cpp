// What schedules cost that the H200 was never seen to want, since other GPUs may want them: the
// space lists them behind the others, and a search that has time, or that walks from one of them,
// gets there. No constant of these is a fit to the stores, which hold no such times; each is what
// probes of copies and of softmax took longer that way.
#include "codegen/families/rows/cost/CostTerms.h"

namespace kiln::rows {
namespace {

/// Elements of a row; what is not wider is held in registers or shared memory.
constexpr std::int64_t kWide = 8192;
/// Rows of a thread, and blocks of a multiprocessor, that a ring was seen to feed well.
constexpr double kFedByRing = 4.0;

/// Elements of the vector that moves 16 bytes of the widest input.
double vectorOf16Bytes(const Facts& facts) {
  int widest = 1;
  for (const Facts::Stream& stream : facts.inputs)
    widest = std::max(widest, stream.bytes);
  return std::max(1.0, 16.0 / widest);
}

/// Whether vectors of memory that overlap the ends of rows do without single elements: a softmax of
/// 777 columns took 1.3 to 1.5 times as long by these, through a ring.
bool isSingleNeedlessly(const Schedule& s, const Facts& facts) {
  return s.vector == 1 && facts.packed && !facts.hasColumns();
}

double lossOfRing(const Schedule& s, const Facts& facts, const CostConstants& k) {
  double sum = k.ringCrowded *
               (halvings(kFedByRing, double(s.rows)) + halvings(kFedByRing, double(s.blocks)));
  if (facts.columnSums == 0 && (!facts.hasOddRows() || isSingleNeedlessly(s, facts)))
    sum += k.ringNeedless;
  return sum;
}

double lossOfCluster(const Schedule& s, const Facts& facts, const CostConstants& k) {
  double sum = facts.width > kWide ? 0.0 : k.clusterNeedless;
  if (s.keep == Keep::global || s.columns == Columns::shared)
    sum += k.clusterNeedless; // half a row saves no memory
  return sum;
}

} // namespace

Launch earliestLaunch(const Schedule& s, const Facts& facts, const Target& target) {
  if (!target.has.programmaticLaunch)
    return Launch::plain;
  const bool ahead = s.grid == Grid::oneShot || s.keep == Keep::ring;
  return ahead && facts.hasOlder() ? Launch::olderFirst : Launch::programmatic;
}

// Else a late launch would be the better one where `ringUneven` punishes an early one.
static_assert(kCostConstants.launchLate > kCostConstants.ringUneven);

bool hasBetterTwin(const Schedule& s, const Facts& facts, const Target& target) {
  return loopsNeedlessly(s, facts) || s.launch != earliestLaunch(s, facts, target);
}

/// Vectors of memory do without.
double looseTerm(const Schedule& s, const Facts& facts, const CostConstants& k) {
  return facts.isLoose(s) && !facts.hasNarrowRows() ? k.ringNeedless : 0.0;
}

double unlikelyTerm(const Schedule& s, const Facts& facts, const Target& target,
                    const CostConstants& k) {
  double sum = s.keep == Keep::ring ? lossOfRing(s, facts, k) + looseTerm(s, facts, k) : 0.0;
  if (loopsNeedlessly(s, facts))
    sum += k.looping;
  if (s.keep == Keep::global && facts.width <= kWide)
    sum += k.narrowAgain;
  if (s.cluster > 1)
    sum += lossOfCluster(s, facts, k);
  if (s.launch != earliestLaunch(s, facts, target))
    sum += k.launchLate;
  if (s.overlaps(facts.width) && s.keep != Keep::ring)
    sum += k.overlapOdd * std::abs(std::log2(double(s.vector) / vectorOf16Bytes(facts)));
  return sum;
}

} // namespace kiln::rows
