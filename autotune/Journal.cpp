// See Journal.h.
#include "autotune/Journal.h"

namespace kiln::autotune {

std::optional<Artifact> verifiedArtifact(const Journal& journal, const Key& key,
                                         const History& history, std::string_view schedule,
                                         bool onlyPassed) {
  for (const Verdict& verdict : history.verdicts)
    if (verdict.schedule == schedule && (verdict.pass || !onlyPassed))
      if (auto artifact = journal.artifact(key, schedule, verdict.cubin))
        return artifact;
  return std::nullopt;
}

} // namespace kiln::autotune
