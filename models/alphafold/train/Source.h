// Where a training step's proteins come from.
#pragma once

#include "models/alphafold/model/Inputs.h"

namespace kiln::alphafold {

class Source {
 public:
  Source() = default;
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// The `index`-th protein of an endless sequence that depends on nothing but the source's own
  /// seed, so that a resumed run reads on where it was: one Inputs for each of `passes` recycling
  /// passes, on the host, each with an alignment drawn anew; truth is needed in the last.
  virtual std::vector<Inputs> sample(std::int64_t index, std::int64_t passes) = 0;
};

} // namespace kiln::alphafold
