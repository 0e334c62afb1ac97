// An example of training: the features of Fields.h drawn and cropped from a chain. The same chain,
// options and seed give the same example.
#pragma once

#include "models/alphafold/features/Chain.h"
#include "models/alphafold/features/Fields.h"

namespace kiln::alphafold {

/// How examples are made. The defaults are those of initial training (supplement, table 4).
struct ExampleOptions {
  std::int64_t crop = 256;     // residues; 0: as many as the chain has
  std::int64_t clusters = 128; // rows of the clustered MSA, without templates' rows
  std::int64_t extraRows = 1024;
  std::int64_t templates = 4; // 0: templates are not used
  bool drawTemplates = true;  // any number of any of them; false: the likeliest
  std::int64_t passes = 4;    // of recycling, drawn by whoever makes batches

  bool deleteBlocks = true; // of the MSA, supplement 1.2.6
  std::int64_t deletedBlocks = 5;
  double blockShare = 0.3; // of the MSA's rows in each block

  double maskedShare = 0.15; // of the MSA's residues, supplement 1.2.7
  double maskUniform = 0.1, maskProfile = 0.1, maskSame = 0.1; // the rest becomes the mask token

  double clampedShare = 0.9; // of examples whose backbone FAPE is clamped, supplement 1.11.5
  bool isDistillation = false;

  /// `initial` training; `finetune`: crop 384, 512 clusters, 5120 extra rows; `predict`: as many,
  /// the whole chain, no block deleted, the likeliest templates. Throws Error(input) for other
  /// names.
  static ExampleOptions named(const std::string& stage);
  /// Throws Error(input), with the numbers.
  void check() const;
};

struct Example : Fields<Array> {
  std::string chain;
};

/// Supplement 1.2. Features beyond the chain's length, MSA and templates are padding.
Example makeExample(const Chain& chain, const ExampleOptions& options, std::uint64_t seed);

} // namespace kiln::alphafold
