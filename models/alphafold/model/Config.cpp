// See Config.h.
#include "models/alphafold/model/Config.h"

#include "models/common/Fail.h"

#include <nlohmann/json.hpp>

namespace kiln::alphafold {

using models::fail;
using nlohmann::json;

namespace {

struct Count {
  const char* name;
  std::int64_t ModelConfig::* member;
};
struct Share {
  const char* name;
  double ModelConfig::* member;
};
struct Flag {
  const char* name;
  bool ModelConfig::* member;
};

constexpr Count counts[] = {{"target_features", &ModelConfig::targetFeatures},
                            {"msa_features", &ModelConfig::msaFeatures},
                            {"extra_features", &ModelConfig::extraFeatures},
                            {"template_angle_features", &ModelConfig::templateAngleFeatures},
                            {"template_pair_features", &ModelConfig::templatePairFeatures},
                            {"amino_acids", &ModelConfig::aminoAcids},
                            {"msa", &ModelConfig::msa},
                            {"pair", &ModelConfig::pair},
                            {"single", &ModelConfig::single},
                            {"extra_msa", &ModelConfig::extraMsa},
                            {"template_pair", &ModelConfig::templatePair},
                            {"evoformer_blocks", &ModelConfig::evoformerBlocks},
                            {"extra_blocks", &ModelConfig::extraBlocks},
                            {"template_blocks", &ModelConfig::templateBlocks},
                            {"structure_layers", &ModelConfig::structureLayers},
                            {"msa_heads", &ModelConfig::msaHeads},
                            {"msa_head", &ModelConfig::msaHead},
                            {"extra_head", &ModelConfig::extraHead},
                            {"pair_heads", &ModelConfig::pairHeads},
                            {"pair_head", &ModelConfig::pairHead},
                            {"template_heads", &ModelConfig::templateHeads},
                            {"template_head", &ModelConfig::templateHead},
                            {"outer_product", &ModelConfig::outerProduct},
                            {"triangle", &ModelConfig::triangle},
                            {"template_triangle", &ModelConfig::templateTriangle},
                            {"transition", &ModelConfig::transition},
                            {"template_transition", &ModelConfig::templateTransition},
                            {"relative_positions", &ModelConfig::relativePositions},
                            {"recycling_bins", &ModelConfig::recyclingBins},
                            {"template_bins", &ModelConfig::templateBins},
                            {"point_heads", &ModelConfig::pointHeads},
                            {"point_head", &ModelConfig::pointHead},
                            {"query_points", &ModelConfig::queryPoints},
                            {"value_points", &ModelConfig::valuePoints},
                            {"resnet", &ModelConfig::resnet},
                            {"resnet_blocks", &ModelConfig::resnetBlocks},
                            {"distogram_bins", &ModelConfig::distogramBins},
                            {"msa_classes", &ModelConfig::msaClasses},
                            {"lddt_bins", &ModelConfig::lddtBins},
                            {"lddt_hidden", &ModelConfig::lddtHidden},
                            {"aligned_error_bins", &ModelConfig::alignedErrorBins}};
constexpr Share shares[] = {{"msa_dropout", &ModelConfig::msaDropout},
                            {"pair_dropout", &ModelConfig::pairDropout},
                            {"structure_dropout", &ModelConfig::structureDropout}};
constexpr Flag flags[] = {{"aligned_error", &ModelConfig::alignedError},
                          {"template_unit_vectors", &ModelConfig::templateUnitVectors}};

/// Of lists like these.
template <typename List, typename Each> void forEach(const List& list, Each each) {
  for (const auto& entry : list)
    each(entry.name, entry.member);
}

ModelConfig tiny() {
  ModelConfig config;
  config.msa = 16;
  config.pair = 12;
  config.single = 20;
  config.extraMsa = config.templatePair = 8;
  config.evoformerBlocks = config.structureLayers = 2;
  config.extraBlocks = config.templateBlocks = 1;
  config.msaHeads = config.pairHeads = config.templateHeads = config.pointHeads = 2;
  config.msaHead = config.extraHead = config.pairHead = config.templateHead = config.pointHead = 4;
  config.outerProduct = config.triangle = config.templateTriangle = 6;
  config.transition = config.templateTransition = 2;
  config.relativePositions = 4;
  config.queryPoints = 2;
  config.valuePoints = 3;
  config.resnet = config.lddtHidden = 8;
  return config;
}

ModelConfig small() {
  ModelConfig config;
  config.msa = config.pair = 64;
  config.single = 128;
  config.extraMsa = config.templatePair = 32;
  config.evoformerBlocks = 4;
  config.structureLayers = 4;
  config.extraBlocks = config.templateBlocks = 1;
  config.msaHeads = config.pairHeads = config.pointHeads = 4;
  config.msaHead = config.pairHead = 16;
  config.outerProduct = 16;
  config.triangle = 64;
  config.templateTriangle = 32;
  config.resnet = config.lddtHidden = 64;
  return config;
}

} // namespace

ModelConfig ModelConfig::named(const std::string& name) {
  if (name == "tiny")
    return tiny();
  if (name == "small")
    return small();
  if (name != "model_1" && name != "model_1_ptm")
    fail(ErrorKind::input, "--model={}: allowed are model_1, model_1_ptm, small and tiny", name);
  ModelConfig config;
  config.alignedError = name == "model_1_ptm";
  return config;
}

void ModelConfig::check() const {
  forEach(counts, [&](const char* name, auto member) {
    if (this->*member < 1)
      fail(ErrorKind::input, "{} is {}: at least 1 is needed", name, this->*member);
  });
  forEach(shares, [&](const char* name, auto member) {
    if (!(this->*member >= 0 && this->*member < 1))
      fail(ErrorKind::input, "{} is {}: must be at least 0 and less than 1", name, this->*member);
  });
  const std::int64_t pairs = templateBins + 2 * aminoAcids + 5, angles = aminoAcids + 35;
  if (templatePairFeatures != pairs)
    fail(
        ErrorKind::input,
        "template_pair_features is {}: {} distance bins, two residues of {} kinds, a direction and "
        "two masks are {}",
        templatePairFeatures, templateBins, aminoAcids, pairs);
  if (templateAngleFeatures != angles)
    fail(ErrorKind::input,
         "template_angle_features is {}: a residue of {} kinds and 7 angles (sine, cosine, their "
         "alternatives, mask) are {}",
         templateAngleFeatures, aminoAcids, angles);
}

std::string ModelConfig::text() const {
  json all = json::object();
  const auto add = [&](const char* name, auto member) { all[name] = this->*member; };
  forEach(counts, add);
  forEach(shares, add);
  forEach(flags, add);
  return all.dump();
}

std::string ModelConfig::unlike(const ModelConfig& other) const {
  const json ours = json::parse(text()), theirs = json::parse(other.text());
  std::string differences;
  for (const auto& [name, value] : ours.items())
    if (value != theirs.at(name))
      differences += fmt::format("{}{} {} and {}", differences.empty() ? "" : ", ", name,
                                 value.dump(), theirs.at(name).dump());
  return differences;
}

ModelConfig ModelConfig::parse(const std::string& text) {
  ModelConfig config;
  try {
    json all = json::parse(text);
    const auto take = [&](const char* name, auto member) {
      if (all.contains(name))
        all.at(name).get_to(config.*member);
      all.erase(name);
    };
    forEach(counts, take);
    forEach(shares, take);
    forEach(flags, take);
    if (!all.empty())
      fail(ErrorKind::corrupt, "a model has no '{}'", all.begin().key());
  } catch (const json::exception& error) {
    fail(ErrorKind::corrupt, "what a model is made of cannot be read: {}", error.what());
  }
  return config;
}

} // namespace kiln::alphafold
