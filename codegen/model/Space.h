// The schedules of one kernel that fit a target, with what they cost, and why the others do not
// fit. Families enumerate them, each through a Sorter.
#pragma once

#include "codegen/backend/Target.h"
#include "codegen/model/Cost.h"
#include "dialect/Schedule.h"

#include <map>
#include <string>
#include <vector>

namespace kiln::model {

/// One broken rule: the knob, what was asked, what is allowed.
struct Violation {
  std::string rule;    // "shared memory", "registers", ...: groups the histogram of `plan`
  std::string message; // with the numbers
};

struct Candidate {
  Schedule schedule;
  Cost cost;               // by which candidates are ranked
  double microseconds = 0; // that it should take
};

struct Space {
  std::vector<Candidate> feasible; // cheapest first
  struct Refused {
    std::int64_t count = 0;
    std::string worst; // one message, of the last that fell by this rule
  };
  std::map<std::string, Refused> refused; // by rule; a schedule counts once, under its first rule
  std::int64_t tuples = 0;
};

/// How much of a space is wanted.
enum class Listing {
  likely,    // without what costs much more than its like on the GPUs that the model was fitted to
  all,       // that fit
  explained, // and why the others do not: several times slower
};

/// Sorts into a space what a visit of schedules finds.
class Sorter {
 public:
  explicit Sorter(Listing listing) : explain(listing == Listing::explained) {}
  bool isEmpty() const { return space.feasible.empty(); } // nothing fits so far
  void add(const Schedule& schedule, const Cost& cost);
  /// One that does not fit; `check` tells the rules that it breaks, and is asked only to explain.
  template <class Check> void refuse(Check check) {
    ++space.tuples;
    if (explain)
      note(check());
  }
  /// So many that fall by one rule, of which `worst` is a message.
  void refuse(std::string_view rule, std::int64_t count, std::string worst);
  /// `microseconds`: that the cheapest should take.
  Space take(double microseconds);

 private:
  void note(const std::vector<Violation>& violations);

  bool explain;
  Space space;
};

/// Throws Error(infeasible): no schedule of the space fits, and why.
[[noreturn]] void failWithReasons(const Space& space, const Target& target);

} // namespace kiln::model
