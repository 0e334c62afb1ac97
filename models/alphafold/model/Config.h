// What an AlphaFold 2 is made of. The numbers are those of the published model; tests shrink them.
// A model that was trained first (256 residues, 128 clusters) and one that is fine-tuned have the
// same parameters: the stages differ in what is cropped and in the losses.
#pragma once

#include <cstdint>
#include <string>

namespace kiln::alphafold {

/// Channels, counts of blocks, heads and bins; shares of what dropout drops.
struct ModelConfig {
  // What the features bring along.
  std::int64_t targetFeatures = 22, msaFeatures = 49, extraFeatures = 25;
  std::int64_t templateAngleFeatures = 57, templatePairFeatures = 88, aminoAcids = 22;

  // Channels of the representations.
  std::int64_t msa = 256, pair = 128, single = 384, extraMsa = 64, templatePair = 64;

  std::int64_t evoformerBlocks = 48, extraBlocks = 4, templateBlocks = 2, structureLayers = 8;

  // Attention: heads, and channels of one.
  std::int64_t msaHeads = 8, msaHead = 32, extraHead = 8;
  std::int64_t pairHeads = 4, pairHead = 32, templateHeads = 4, templateHead = 16;

  std::int64_t outerProduct = 32, triangle = 128, templateTriangle = 64;
  std::int64_t transition = 4, templateTransition = 2; // hidden channels, in widths
  std::int64_t relativePositions = 32;                 // residues, to either side
  std::int64_t recyclingBins = 15, templateBins = 39;  // of distances

  // Structure module.
  std::int64_t pointHeads = 12, pointHead = 16, queryPoints = 4, valuePoints = 8;
  std::int64_t resnet = 128, resnetBlocks = 2;

  // Heads.
  std::int64_t distogramBins = 64, msaClasses = 23, lddtBins = 50, lddtHidden = 128;
  std::int64_t alignedErrorBins = 64;
  bool alignedError = false; // the published models called "ptm" have it

  bool templateUnitVectors = false; // directions between residues; the published models hide them

  double msaDropout = 0.15, pairDropout = 0.25, structureDropout = 0.1;

  /// Of a name: "model_1", "model_1_ptm" (with the aligned-error head), "small" (learns a protein
  /// on a CPU), "tiny" (for tests: all of the parts, little of each). Throws Error(input) for
  /// others.
  static ModelConfig named(const std::string& name);
  /// Throws Error(input), with the numbers.
  void check() const;

  /// As JSON. parse() throws Error(corrupt); what is not named keeps its published value.
  std::string text() const;
  static ModelConfig parse(const std::string& text);

  /// "evoformer_blocks 2 and 4, single 20 and 384": what this one and another do not have in
  /// common; empty: they are the same.
  std::string unlike(const ModelConfig& other) const;

  bool operator==(const ModelConfig&) const = default;
};

} // namespace kiln::alphafold
