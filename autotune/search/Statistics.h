// Is one kernel faster than another? Decided from paired samples: sample i of both was taken in
// the same round, so that drift of clocks and temperature cancels in their ratio. Intervals come
// from a bootstrap with a fixed seed; they are looked at only at fixed numbers of samples, among
// which the probability of an error is divided. Without that, looking often enough finds anything.
#pragma once

#include "autotune/Records.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kiln::autotune {

inline constexpr std::array<std::size_t, 5> kLooks{8, 16, 32, 64, 128};
/// Kernels whose ratio lies within 1 +- this are the same for every purpose.
inline constexpr double kSame = 0.005;
/// Probability that a comparison is wrong, over all its looks.
inline constexpr double kError = 0.05;

struct Interval {
  double middle = 0, low = 0, high = 0;
};

/// The median with its bootstrap interval: the truth lies outside with probability `error`. Never
/// narrower than what holds for every distribution; samples too few for that give no ends.
Interval medianInterval(std::span<const double> samples, double error = kError);

/// Of samples that were taken in the same rounds, as many as both have.
std::vector<double> ratios(std::span<const double> over, std::span<const double> under);

/// Fills in the times of `samples`, and their ratio to the default's, which are `beside` them.
void setTimes(Measurement& measurement, std::span<const double> samples,
              std::span<const double> beside);

enum class Outcome : std::uint8_t { faster, slower, same, ambiguous, open };

struct Comparison {
  Outcome outcome = Outcome::open; // open: more samples may decide; ambiguous: there are no more
  Interval ratio{1, 0, 0};         // of the candidate's time to the incumbent's
  std::size_t samples = 0;         // of the last look
};

/// How the candidate compares with the incumbent, at the last look that the samples allow. One of
/// `several` comparisons that must all hold.
Comparison compare(std::span<const double> candidate, std::span<const double> incumbent,
                   std::size_t several = 1);

struct Contender {
  std::string schedule;
  int registers = 0;
  std::int64_t sharedBytes = 0;
  std::vector<double> samples;
};

struct Decision {
  std::size_t winner = 0;
  std::size_t runnerUp = 0;          // the fastest of the others; the winner where there is none
  std::vector<Comparison> toDefault; // each contender's
  Comparison overRunnerUp;           // the winner's
  bool settled = false;              // more samples would change nothing
};

/// Which of the contenders, timed in the same rounds, is to be chosen. The first is the default: it
/// wins unless another is proven faster. Of those that are and cannot be told from the fastest,
/// the one with the fewest registers wins, then the least shared memory, then the order of texts.
Decision decide(std::span<const Contender> contenders);

} // namespace kiln::autotune
