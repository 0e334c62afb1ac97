// A tape as it is run: what remains ATen's, in its order, attentions, and regions of rows that
// become kernels.
#pragma once

#include "kiln/compile.h"
#include "runtime/compile/Attention.h"

#include <map>

namespace kiln::compiled {

/// Operations of one kernel, in the order of the tape.
struct Region {
  std::vector<unsigned> ops;
  std::vector<Slot> inputs, outputs;
  at::DimVector space;  // the shape that comes of all operands
  bool hasRows = false; // an operation along them
  std::int64_t bytesSaved = 0;
  const FusedFunction* function = nullptr; // null: its operations run one by one
  std::string why;                         // they do

  std::string text(const Tape& tape) const; // "layer_norm, mul, add"
};

/// Runs one operation as it was recorded, a region or an attention.
struct Step {
  int op = -1, region = -1, attention = -1;
  std::vector<Slot> last = {}; // values that nobody reads any more
};

struct Plan {
  std::vector<Region> regions; // also those of several operations that are not run as kernels
  std::vector<Attention> attentions;
  std::vector<CompiledRegion> attentionsLeft; // what looked like one, and runs as it is written
  std::vector<Step> steps;
  std::vector<std::string> whyNot; // of each operation of the tape that is in no region
  std::vector<bool> copiesFirst; // of operations in place, whose old value a region has to do with
};

/// The function of a region: one for all that are alike, for good.
const FusedFunction& functionOf(const Tape& tape, const Region& region,
                                const CaptureOptions& options);

/// Kernels and attentions that turned out not to work, by their operations: why.
using Failures = std::map<std::vector<unsigned>, std::string>;

/// What becomes of attentions that have a dropout: one, or what is written.
enum class Dropouts { taken, left };

Plan plan(const Tape& tape, const CaptureOptions& options, const Failures& failures,
          Dropouts dropouts);

} // namespace kiln::compiled
