// See Journal.h.
#include "autotune/Journal.h"

namespace kiln::autotune {

std::optional<Artifact> verifiedArtifact(const Journal& journal, const Key& key,
                                         const History& history, std::string_view schedule) {
  for (bool passed : {true, false})
    for (const Verdict& verdict : history.verdicts)
      if (verdict.pass == passed && verdict.schedule == schedule)
        if (auto artifact = journal.artifact(key, schedule, verdict.cubin))
          return artifact;
  return std::nullopt;
}

} // namespace kiln::autotune
