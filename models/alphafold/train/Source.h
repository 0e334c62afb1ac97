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

  /// Proteins of a step, each as one Inputs for every recycling pass, as many passes for all: on
  /// the host, each pass with an alignment drawn anew, the truth in the last. They depend on the
  /// step and the source's own seed alone, so that a resumed run reads on where it was.
  virtual std::vector<std::vector<Inputs>> batch(std::int64_t step) = 0;
};

} // namespace kiln::alphafold
