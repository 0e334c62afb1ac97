// What predict_alphafold is told, and what it does. Plain C++: no header of Torch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace kiln::alphafold {

/// What each means stands in Cli.cpp, beside its flag.
struct PredictOptions {
  std::string weights, model; // a file; of what size it is if the file does not say
  std::string sequences, structures, alignments, templateStructures, features, chains;
  std::int64_t clusters = 512, extra = 5120, templates = 4, passes = 4, seed = 1;
  std::string out = "predicted", exportTo;
  std::string device, precision = "fp32", kiln = "off";

  /// Throws Error(input), with the numbers.
  void check() const;
};

/// Of a command line, or none if all is said: `status` is 0 after --help and 2 after a usage error.
std::optional<PredictOptions> parsePredict(int argc, const char* const* argv, int& status);

/// Writes OUT/NAME.pdb, .cif and .json of each protein, and a line to the standard output; and the
/// weights to `exportTo`. Throws Error.
void predict(const PredictOptions& options);

} // namespace kiln::alphafold
