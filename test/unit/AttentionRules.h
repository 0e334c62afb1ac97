// What tests of attention's schedules share: a head's facts, and the rules that a schedule breaks.
#pragma once

#include "codegen/families/attention/Schedule.h"

#include <fmt/format.h>

namespace kiln::attention {

inline Facts facts() {
  Facts facts;
  facts.width = facts.valueWidth = 32;
  facts.queries = facts.keys = 256;
  facts.heads = facts.keyHeads = 1024;
  return facts;
}

inline std::string violations(const Schedule& schedule, const Facts& facts,
                              const char* target = "sm_90a") {
  std::string text;
  for (const model::Violation& broken : check(schedule, facts, findTarget(target)))
    text += fmt::format("{}: {}\n", broken.rule, broken.message);
  return text;
}

} // namespace kiln::attention
