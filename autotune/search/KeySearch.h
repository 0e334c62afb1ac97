// The search for one key: candidates are compiled ahead, verified, screened beside the default,
// and the best of them timed together until the choice is beyond doubt.
#pragma once

#include "autotune/search/Compilers.h"
#include "autotune/search/Points.h"
#include "autotune/search/Search.h"
#include "autotune/search/Spills.h"
#include "autotune/search/Statistics.h"

#include <set>

namespace kiln::autotune {

/// What searches work with and report to.
struct Bench {
  Journal& journal;
  Device& device;
  Compilers& compilers;
  const SearchOptions& options;
  std::string driver;
  Progress& progress;
};

class KeySearch {
 public:
  /// `checkLease` is called between steps and may throw.
  KeySearch(const Problem& problem, Bench& bench, double seconds, std::function<void()> checkLease);
  Result run();

 private:
  /// A candidate that passed and may be timed.
  struct Ready {
    std::size_t place = 0; // among the points
    Artifact artifact;
    double ratio = 0; // to the default, by the median of all pairs; 0: not timed
    double microseconds = 0;
    std::vector<double> samples, beside; // its times, and the default's in the same rounds
  };
  using List = std::vector<Ready*>;
  using Clock = std::chrono::steady_clock;
  /// The default broke while it was timed: all ratios are to something that cannot be chosen.
  struct DefaultLost {};

  // Candidates (KeySearch.cpp).
  void recall();
  Result attempt();
  bool findDefault();
  void tryForDefault(std::size_t failed, bool alsoLikelyToSpill);
  void want(std::size_t place);
  Ready* prepare(std::size_t place);
  std::optional<Artifact> obtain(std::size_t place);
  bool passes(const Artifact& artifact, const std::string& schedule, std::uint64_t seed);
  Check verify(const Artifact& artifact, std::uint64_t seed);
  void noteFailure(const std::string& schedule, const std::string& cubin, FailureKind kind,
                   const std::string& log);

  // Which to try (KeySearch.cpp). False: exploring is over.
  void explore();
  bool screen(std::span<const std::size_t> places);
  void halve();
  std::vector<std::size_t> seeds();
  std::vector<std::size_t> moves();
  bool isOver();
  bool cannotImprove() const;
  bool isFresh(std::size_t place) const;
  bool isDead(const std::string& schedules) const {
    return dead.contains(schedules) || spills.isIn(schedules);
  }
  List best(std::size_t count);

  // Times and the choice (Finals.cpp).
  /// Times the default and these together; what broke is gone from the list. None: it throttles.
  std::optional<Batch> time(List& list, std::size_t rounds);
  void findCulprits(List& list, const Lost& lost);
  bool series(List list, std::size_t rounds);
  void append(Ready& ready, const std::vector<double>& samples, const std::vector<double>& beside);
  Measurement measurementOf(const Ready& ready) const;
  Result finish(List finalists);
  Decision settle(List& list);
  void considerVendor(const Measurement& chosen, Choice& choice, Result& result) const;

  const std::string& textOf(std::size_t place) const { return points.schedules(place); }
  double secondsUsed() const {
    return std::chrono::duration<double>(Clock::now() - started).count();
  }
  /// Does the work, and adds the seconds that it takes, whatever its end.
  template <class Work> static auto charge(double& account, Work work) {
    struct Watch {
      double& account;
      Clock::time_point begin = Clock::now();
      ~Watch() { account += std::chrono::duration<double>(Clock::now() - begin).count(); }
    } watch{account};
    return work();
  }
  Result result(std::string why) const;
  void report();

  const Problem& problem;
  Bench& bench;
  double budget;
  std::function<void()> checkLease;
  Clock::time_point started = Clock::now();
  std::uint64_t seed;
  Points points;
  History history;
  std::set<std::string> dead; // rejected or failed
  Spills spills{problem.spaces};
  std::map<std::string, std::string> launches;         // the schedule of each, of code and plan
  std::map<std::size_t, std::unique_ptr<Ready>> ready; // by place
  Ready* base = nullptr;                               // the default
  Conditions conditions;
  Spent spent;
  std::string reason; // why exploring ended
  int unexplained = 0;
  bool stopped = false;
};

} // namespace kiln::autotune
