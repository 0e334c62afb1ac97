// Why schedules were never run, counted by rule: candidates that fell when they were compiled, and
// the schedules that break a rule of their family, whoever has counted those.
#pragma once

#include "autotune/Records.h"
#include "kiln/plan.h"

#include <map>

namespace kiln::autotune {

class RejectionsByRule {
 public:
  void add(const Rejection& candidate);
  /// Schedules that break a rule; `worst`: of one of them, with the numbers.
  void add(const std::string& rule, std::int64_t schedules, const std::string& worst);
  /// Most frequent first.
  std::vector<kiln::Rejection> list() const;

 private:
  void count(const std::string& reason, std::int64_t schedules, const std::string& worst);

  std::map<std::string, kiln::Rejection> byReason;
};

} // namespace kiln::autotune
