// The registers that a thread of an attention kernel will need, by kind: what it sums, scores of a
// tile, operands, and numbers of places. Fitted to what the assembler spilled.
#include "codegen/families/attention/Resources.h"

#include <algorithm>

namespace kiln::attention {
namespace {

/// Rows of its own that a thread has parts of in fp32, and four of the others, which are on their
/// way as they lie in memory (ThreadRows in device/attention_threads.cuh).
std::int64_t registersByThreads(const Facts& facts) {
  const std::int64_t lanes = lanesOfRow(facts);
  const std::int64_t vectors = (vectorsOfRow(facts) + lanes - 1) / lanes;
  const std::int64_t own = facts.kind == Kind::forward         ? 2
                           : facts.kind == Kind::queryGradient ? 3
                                                               : 4;
  return 48 + vectors * (own * 16 / facts.bytes + 8 * 4);
}

class Estimate {
 public:
  Estimate(const Schedule& s, const Facts& facts) : s(s), facts(facts) {}

  std::int64_t take() const {
    if (hasHeads(s))
      return byHeads();
    switch (facts.kind) {
    case Kind::forward:
      return forward();
    case Kind::queryGradient:
      return queryGradient();
    case Kind::keyGradient:
      return takesTurns(s, facts) ? byTurns() : holdsBias(s) ? keysHolding() : keyGradient();
    case Kind::biasGradient:
      return biasGradient();
    }
    return 0;
  }

 private:
  /// Of a row of so many, of which four threads have a part each.
  std::int64_t of(std::int64_t width) const {
    return ((s.products == Products::warpgroups ? paddedWidth(width) : width) + 7) / 8 * 4;
  }
  bool isFloat() const { return facts.bytes == 4; }
  /// Of fp32 more of the scores of a tile is at work at once: 64 queries spilled 15 registers with
  /// rows of 40 elements and none with 32.
  std::int64_t gradientScores(std::int64_t ofTwoBytes) const {
    return isFloat() ? scores * 43 / 10 : ofTwoBytes;
  }
  /// What is summed, operands, and scores, of gradients twice.
  std::int64_t byHeads() const {
    const std::int64_t rows = rowsOfWarp(s, facts) / 16;
    if (facts.kind != Kind::forward)
      return 32 + operands / 2 +
             rows * ((of(facts.width) + of(facts.valueWidth)) * 3 / 2 + scores * 2);
    const std::int64_t ofRow = 8 + of(facts.width) / 2 + of(facts.valueWidth) + scores * 3 / 2 +
                               (facts.width > 64 ? 16 : 0) + (facts.hasDropout ? 20 : 0);
    return 4 + operands / 2 + rows * ofRow + (facts.hasDropout ? 16 : 0) +
           (facts.hasWindow || facts.biasBytes > 0 ? 8 : 0);
  }
  /// By warpgroups, probabilities of one tile beside scores of the next; of dropout, what numbers
  /// are drawn of.
  std::int64_t forward() const {
    if (holdsBiasByWarps(s)) // of 32 keys at a time
      return 72;
    const bool isWide = facts.width > 128; // rows that by warpgroups leave none to spare
    const bool movesScores = facts.isCausal || facts.hasWindow || facts.hasSoftcap;
    return others + of(facts.valueWidth) + scores * 3 / 2 + (facts.masksPlaces ? ofWide : 0) +
           (isWide && s.products == Products::warpgroups ? (movesScores ? 24 : 8) : 0) +
           (facts.biasBytes > 0 && !holdsBias(s) ? (isWide ? 32 : 8) : 0) +
           (s.products != Products::warpgroups ? operands
            : facts.hasDropout                 ? 56
                                               : 0);
  }
  std::int64_t queryGradient() const {
    if (holdsBias(s))
      return others + of(facts.width) + scores * 3 + (choosesPlaces ? ofWide : 0);
    return others + operands + of(facts.width) + gradientScores(scores * 5 / 2) + bent;
  }
  /// Scores, products and probabilities, or gradients of queries and where they go.
  std::int64_t byTurns() const {
    const std::int64_t pieces = s.queries * facts.width / (s.keys * 64) * 32;
    return 16 + of(facts.width) + of(facts.valueWidth) +
           std::max(pieces + scores / 2 + 24, scores * 5 / 2);
  }
  std::int64_t keysHolding() const {
    if (holdsBiasByWarps(s)) // of sums, of rows, and of scores
      return s.queries / 2 + 104;
    const std::int64_t sums = of(facts.width) + of(facts.valueWidth);
    if (facts.sumsBias) // one tile's products are done before the next's
      return others + 8 + sums + scores * (2 + tilesInRegisters(s, facts)) +
             (s.side > 1 ? 32 : 0) + // for where the tiles of each lie
             (facts.sumsQueries ? 16 : 0) + (resumesKeys(facts) ? 16 : 0);
    // A mask of places is read a tile ahead.
    return others + (facts.masksPlaces ? 8 : 0) + (facts.hasWindow ? scores * 7 / 4 : 0) +
           (facts.hasDropout && facts.width > 64 ? 8 : 0) +
           (facts.hasDropout && facts.isCausal ? 16 : 0) + sums + scores * 3;
  }
  std::int64_t keyGradient() const {
    return others + operands + (facts.hasKeys ? of(facts.width) : 0) +
           (facts.hasValues ? of(facts.valueWidth) : 0) + bent + gradientScores(scores * 2);
  }
  std::int64_t biasGradient() const {
    if (holdsBias(s)) // sums stay live while places are counted and drawn for
      return others + scores * 3 + (facts.hasDropout ? 72 : facts.masksPlaces ? 24 : 0);
    return others + operands + scores * 3 + (isFloat() ? 0 : 16);
  }

  const Schedule& s;
  const Facts& facts;
  const std::int64_t scores = of(hasHeads(s) ? stepOfHeads(s, facts) : stepRows(s, facts));
  const std::int64_t bent = facts.hasSoftcap ? scores : 0;
  const std::int64_t operands = isFloat() ? 40 : 16;
  // Addresses, rows' numbers, and what places are counted for. Blocks that stay, whose registers
  // three warpgroups share, find rows' numbers anew.
  const std::int64_t others =
      (isResident(s) ? 32 : 40) + (facts.hasDropout || facts.masksPlaces ? 16 : 0);
  const bool choosesPlaces =
      facts.isCausal || facts.hasWindow || facts.hasDropout || facts.masksPlaces;
  const std::int64_t ofWide = facts.width > 192 ? 32 : 0; // beside sums of 256 nothing is left
};

} // namespace

std::int64_t estimatedRegisters(const Schedule& s, const Facts& facts) {
  return s.products == Products::threads ? registersByThreads(facts) : Estimate(s, facts).take();
}

} // namespace kiln::attention
