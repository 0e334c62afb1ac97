// See Example.h.
#include "models/alphafold/features/Example.h"

#include "models/alphafold/features/Chemistry.h"
#include "models/alphafold/features/MsaFeatures.h"
#include "models/alphafold/features/StructureFeatures.h"
#include "models/common/Fail.h"

#include <algorithm>

namespace kiln::alphafold {

namespace {

/// Residues of the chain that an example shows.
struct Window {
  std::int64_t begin, length;
};

/// Supplement 1.2.8, algorithm 2: any window, but of an example without clamping the last place for
/// its begin is itself drawn, which favours the chain's begin.
Window drawWindow(std::int64_t length, std::int64_t crop, bool isClamped, Random& random) {
  const auto upTo = [&](std::int64_t last) {
    return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(last) + 1));
  };
  const std::int64_t shown = std::min(length, crop);
  const std::int64_t last = isClamped ? length - shown : length - shown - upTo(length - shown);
  return {upTo(last), shown};
}

/// The part of an array that a window shows, along an axis, padded with zeros to `size`.
template <typename T>
void cropAxis(Array<T>& array, std::size_t axis, Window window, std::int64_t size) {
  Array<T> result = [&] {
    std::vector<std::int64_t> shape = array.shape;
    shape[axis] = size;
    return Array<T>(shape);
  }();
  const std::int64_t inner = array.stride(axis + 1),
                     outer = Array<T>::elements(std::span(array.shape).first(axis));
  for (std::int64_t i = 0; i < outer; ++i)
    std::copy_n(array.values.data() + (i * array.shape[axis] + window.begin) * inner,
                window.length * inner, result.values.data() + i * size * inner);
  array = std::move(result);
}

void makeSequence(const Chain& chain, FeatureSet& features) {
  const std::int64_t length = chain.length();
  features.aatype = Array<std::int64_t>({length});
  features.residueIndex = Array<std::int64_t>({length});
  features.seqMask = Array<float>({length}, 1);
  features.targetFeat = Array<float>({length, residueTypes + 2});
  for (std::int64_t r = 0; r < length; ++r) {
    const auto type = chemistry().letters.find(chain.sequence[r]);
    features.aatype(r) = static_cast<std::int64_t>(std::min<std::size_t>(type, unknownType));
    features.residueIndex(r) = r;
    features.targetFeat(r, 1 + features.aatype(r)) = 1;
  }
}

/// Any of the templates in any order, as many as a number drawn uniformly from 0 to all, but at
/// most `templates` (supplement 1.2.3); or the likeliest. [T, R] and so on, padded.
void drawTemplates(const Templates& from, std::int64_t length, const ExampleOptions& options,
                   Random& random, FeatureSet& features) {
  Rows order(from.size());
  for (std::int64_t i = 0; i < from.size(); ++i)
    order[i] = i;
  std::int64_t wanted = from.size();
  if (options.drawTemplates) {
    random.shuffle(order);
    wanted = static_cast<std::int64_t>(random.below(order.size() + 1));
  }
  const std::int64_t most = options.templates;
  order.resize(std::min(wanted, most));
  features.templateMask = Array<float>({most});
  features.templateSumProbs = Array<float>({most});
  features.templateAatype = Array<std::int64_t>({most, length});
  features.templateAllAtomPositions = Array<float>({most, length, atomTypes, 3});
  features.templateAllAtomMask = Array<float>({most, length, atomTypes});
  for (std::int64_t i = 0; i < std::ssize(order); ++i) {
    const std::int64_t one = order[i];
    features.templateMask(i) = 1;
    features.templateSumProbs(i) = from.sumProbs[one];
    std::copy_n(from.aatype.at(one), length, features.templateAatype.at(i));
    std::copy_n(from.positions.at(one), length * atomTypes * 3,
                features.templateAllAtomPositions.at(i));
    std::copy_n(from.mask.at(one), length * atomTypes, features.templateAllAtomMask.at(i));
  }
  makeTemplateGeometry(features);
}

/// Features of the structure and the sequence, of the whole chain.
FeatureSet wholeChain(const Chain& chain) {
  FeatureSet features;
  makeSequence(chain, features);
  features.allAtomPositions = chain.positions;
  features.allAtomMask = chain.mask;
  makeAtomMaps(features);
  makeAtom14Positions(features);
  makeRigidGroups(features);
  makeTorsionAngles(features);
  makePseudoBeta(features);
  makeBackbone(features);
  return features;
}

void makeMsa(const Chain& chain, const ExampleOptions& options, std::uint64_t seed, Window window,
             FeatureSet& features) {
  const std::int64_t passes = options.passes, residues = options.crop;
  const auto make = [&](std::int64_t rows, auto... inner) {
    return std::vector<std::int64_t>{passes, rows, residues, inner...};
  };
  features.msaFeat = Array<float>(make(options.clusters, msaColumns));
  features.msaMask = features.bertMask = Array<float>(make(options.clusters));
  features.trueMsa = Array<std::int64_t>(make(options.clusters));
  features.extraMsaFeat = Array<float>(make(options.extraRows, extraColumns));
  features.extraMsaMask = Array<float>(make(options.extraRows));
  const Array<float> profile = msaProfile(chain.msa);
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    Random random(seed, {1, static_cast<std::uint64_t>(pass)});
    makeMsaFeatures(chain.msa, profile, options, pass, window.begin, window.length, random,
                    features);
  }
}

template <typename T> Array<T> scalar(T value) {
  return Array<T>({}, value);
}

} // namespace

ExampleOptions ExampleOptions::named(const std::string& stage) {
  ExampleOptions options;
  if (stage != "initial" && stage != "finetune" && stage != "predict")
    models::fail(ErrorKind::input, "'{}' is no stage; initial, finetune and predict are", stage);
  if (stage != "initial") {
    options.crop = 384;
    options.clusters = 512;
    options.extraRows = 5120;
  }
  if (stage == "predict") {
    options.crop = 0;
    options.deleteBlocks = options.drawTemplates = false;
  }
  return options;
}

void ExampleOptions::check() const {
  const auto atLeast = [](const char* name, std::int64_t value, std::int64_t least) {
    constexpr std::int64_t most = 1 << 20;
    if (value < least || value > most)
      models::fail(ErrorKind::input, "{} is {}; {} to {} are allowed", name, value, least, most);
  };
  atLeast("crop", crop, 0);
  atLeast("clusters", clusters, 1);
  atLeast("extraRows", extraRows, 0);
  atLeast("templates", templates, 0);
  atLeast("passes", passes, 1);
  atLeast("deletedBlocks", deletedBlocks, 0);
  for (auto [name, share] :
       {std::pair("blockShare", blockShare),
        {"maskedShare", maskedShare},
        {"clampedShare", clampedShare},
        {"maskUniform", maskUniform},
        {"maskProfile", maskProfile},
        {"maskSame", maskSame},
        {"maskUniform + maskProfile + maskSame", maskUniform + maskProfile + maskSame}})
    if (!(share >= 0 && share <= 1))
      models::fail(ErrorKind::input, "{} is {}; a share of 0 to 1 is needed", name, share);
}

Example makeExample(const Chain& chain, const ExampleOptions& given, std::uint64_t seed) {
  given.check();
  if (chain.length() == 0 || chain.msa.rows() == 0)
    models::fail(ErrorKind::input,
                 "chain {} has {} residues and {} rows of an alignment; both need one", chain.name,
                 chain.length(), chain.msa.rows());
  ExampleOptions options = given;
  options.crop = given.crop == 0 ? chain.length() : given.crop;
  Random random(seed, {0});
  const bool isClamped = random.uniform() < options.clampedShare;
  const Window window = drawWindow(chain.length(), options.crop, isClamped, random);

  Example example;
  FeatureSet& features = example;
  features = wholeChain(chain);
  drawTemplates(chain.templates, chain.length(), options, random, features);
  // Once for the whole example and for templates: of the others no sizes are there yet.
  forEachField(
      [&](std::string_view name, bool, auto& array) {
        const bool isTemplates = name.starts_with("template_");
        if (array.shape.size() > (isTemplates ? 1U : 0U))
          cropAxis(array, isTemplates ? 1 : 0, window, options.crop);
      },
      features);
  makeMsa(chain, options, seed, window, features);
  features.seqLength = scalar(window.length);
  features.resolution = scalar(chain.resolution);
  features.isDistillation = scalar(options.isDistillation ? 1.0F : 0.0F);
  features.useClampedFape = scalar(isClamped ? 1.0F : 0.0F);
  example.chain = chain.name;
  return example;
}

} // namespace kiln::alphafold
