// See Data.h.
#include "models/alphafold/train/Data.h"

#include "models/alphafold/features/Build.h"
#include "models/alphafold/features/Text.h"
#include "models/common/Fail.h"

#include <algorithm>
#include <map>

namespace kiln::alphafold {

namespace fs = std::filesystem;
using at::Tensor;
using models::fail;

namespace {

bool holdsFeatures(const fs::path& folder) {
  return std::ranges::any_of(fs::directory_iterator(folder), [](const auto& entry) {
    return entry.path().extension() == ".features";
  });
}

void makeFeatures(const TrainOptions& options, const fs::path& folder, const fs::path& cache,
                  const std::function<void(const std::string&)>& tell) {
  BuildOptions build;
  build.structures = {folder};
  build.alignments = folder;
  build.output = cache;
  build.chain.templates.structures = options.templateStructures;
  const BuildResult result = buildCache(build);
  for (const LeftOut& one : result.leftOut)
    tell(printable("left out: " + one.what + ": " + one.why));
  tell(fmt::format("{}: {} chains made, {} there already, {} left out", cache.string(),
                   result.made.size(), result.kept.size(), result.leftOut.size()));
}

} // namespace

ExampleOptions exampleOf(const TrainOptions& options) {
  ExampleOptions example = ExampleOptions::named(options.stage);
  if (options.crop > 0)
    example.crop = options.crop;
  if (options.clusters > 0)
    example.clusters = options.clusters;
  if (options.extra > 0)
    example.extraRows = options.extra;
  if (options.templates >= 0)
    example.templates = options.templates;
  example.passes = options.passes;
  return example;
}

Inputs inputsOf(const Batch& batch, std::int64_t pass, std::int64_t example) {
  std::map<std::string, Tensor, std::less<>> features;
  Fields<TensorOf> one = batch.one(pass, example);
  forEachField(
      [&](std::string_view name, bool, const Tensor& tensor) { features.emplace(name, tensor); },
      one);
  Inputs inputs;
  inputs.each([&](const char* name, Tensor& tensor) { tensor = features.at(name); });
  return inputs;
}

Dataset openDataset(const TrainOptions& options, const fs::path& folder, const fs::path& cache,
                    const std::function<void(const std::string&)>& tell) {
  if (!fs::is_directory(folder))
    fail(ErrorKind::missing,
         "{} is no folder that is there; a folder of proteins, or of what "
         "alphafold_features made, is needed",
         folder.string());
  const bool isMade = holdsFeatures(folder);
  if (!isMade)
    makeFeatures(options, folder, cache, tell);
  DatasetOptions chosen;
  chosen.caches = {isMade ? folder : cache};
  chosen.clusters = options.clusterFile;
  chosen.only = namesIn(options.chains);
  return Dataset(chosen);
}

TrainingData::TrainingData(const TrainOptions& given, Dataset dataset, const dist::Place& place)
    : chains(std::move(dataset)) {
  options.example = exampleOf(given);
  options.seed = std::uint64_t(given.seed);
  options.batch = given.batch;
  options.rank = place.rank;
  options.ranks = place.size;
  options.workers = given.workers;
  options.prefetch = 2 * given.workers;
}

std::vector<std::vector<Inputs>> TrainingData::batch(std::int64_t step) {
  if (!loader || loader->step() != step) { // at the start, or resumed elsewhere
    waitedBefore = waited();
    loader.reset();
    options.firstStep = step;
    loader = std::make_unique<Loader>(chains, options);
  }
  const Batch batch = loader->next();
  std::vector<std::vector<Inputs>> proteins(std::size_t(batch.size()));
  for (std::int64_t i = 0; i < batch.size(); ++i)
    for (std::int64_t pass = 0; pass < batch.passes; ++pass)
      proteins[std::size_t(i)].push_back(inputsOf(batch, pass, i));
  return proteins;
}

ValidationData::ValidationData(const TrainOptions& options, Dataset dataset)
    : chains(std::move(dataset)), example(exampleOf(options)), seed(std::uint64_t(options.seed)),
      count(std::min(options.evaluateProteins, std::ssize(chains.entries()))) {
  example.deleteBlocks = example.drawTemplates = false;
  example.clampedShare = 1;
}

std::vector<std::vector<Inputs>> ValidationData::batch(std::int64_t step) {
  const Chain chain = readChain(chains.entries()[std::size_t(step)].chain.path);
  const Batch batch = collate({makeExample(chain, example, seed + std::uint64_t(step))});
  std::vector<Inputs> passes;
  for (std::int64_t pass = 0; pass < batch.passes; ++pass)
    passes.push_back(inputsOf(batch, pass, 0));
  return {passes};
}

} // namespace kiln::alphafold
