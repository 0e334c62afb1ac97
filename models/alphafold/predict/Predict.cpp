// See Predict.h.
#include "models/alphafold/predict/Predict.h"

#include "kiln/files.h"
#include "models/alphafold/features/Build.h"
#include "models/alphafold/features/Chemistry.h"
#include "models/alphafold/features/Text.h"
#include "models/alphafold/losses/Metrics.h"
#include "models/alphafold/model/AlphaFold.h"
#include "models/alphafold/model/AtomTables.h"
#include "models/alphafold/predict/StructureFile.h"
#include "models/alphafold/train/Data.h"
#include "models/common/Checkpoint.h"
#include "models/common/Device.h"
#include "models/common/Ema.h"
#include "models/common/Fail.h"
#include "models/common/Folder.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>

namespace kiln::alphafold {

namespace fs = std::filesystem;
using at::Tensor;
using models::fail;

namespace {

/// The file's averages if it has some, else its weights.
AlphaFold modelOf(const PredictOptions& options) {
  const models::Safetensors file{fs::path(options.weights)};
  const bool says = file.metadata().contains("model");
  const ModelConfig config =
      says ? ModelConfig::parse(file.text("model"))
           : ModelConfig::named(options.model.empty() ? "model_1" : options.model);
  AlphaFold model(config);
  if (file.contains("ema.evoformer.linear.weight")) {
    models::Ema averages(*model, 0);
    averages.restore(file);
    averages.exchange();
  } else {
    models::readParameters(file, *model);
  }
  model->eval();
  return model;
}

/// Of files the features are made in OUT/features.
std::vector<CacheEntry> proteinsOf(const PredictOptions& options) {
  std::vector<CacheEntry> all;
  if (!options.features.empty()) {
    all = readCache(options.features);
  } else {
    BuildOptions build;
    if (!options.structures.empty())
      build.structures = {options.structures};
    build.sequences = options.sequences;
    build.output = fs::path(options.out) / "features";
    build.alignments =
        options.alignments.empty() ? build.output / "no-alignments" : fs::path(options.alignments);
    if (!options.alignments.empty() && !fs::is_directory(options.alignments))
      fail(ErrorKind::missing, "--alignments={} is no folder that is there", options.alignments);
    build.chain.templates.structures = options.templateStructures;
    build.chain.allowSingle = true;
    BuildResult result = buildCache(build);
    for (const LeftOut& one : result.leftOut)
      std::cerr << printable("left out: " + one.what + ": " + one.why) << '\n';
    all = std::move(result.made);
    all.insert(all.end(), result.kept.begin(), result.kept.end());
    std::ranges::sort(all, {}, &CacheEntry::name);
  }
  return all;
}

/// No more rows and templates than there are, since the rest would be padding.
Batch batchOf(const Chain& chain, const PredictOptions& options) {
  ExampleOptions example = ExampleOptions::named("predict");
  example.clusters = std::min(options.clusters, chain.msa.rows());
  example.extraRows =
      std::clamp<std::int64_t>(chain.msa.rows() - example.clusters, 1, options.extra);
  example.templates = std::min(options.templates, chain.templates.size());
  example.passes = options.passes;
  return collate({makeExample(chain, example, std::uint64_t(options.seed))});
}

PredictedChain filesOf(const Chain& chain, const Tensor& positions, const Tensor& confidence) {
  const Chemistry& known = chemistry();
  const Tensor places = positions.to(at::kCPU, at::kDouble).contiguous(),
               scores = confidence.to(at::kCPU, at::kDouble).contiguous();
  const double* place = places.const_data_ptr<double>();
  const double* score = scores.const_data_ptr<double>();
  PredictedChain result{chain.name, {}};
  for (std::size_t r = 0; r < chain.sequence.size(); ++r) {
    const auto type = std::min<std::size_t>(known.letters.find(chain.sequence[r]), unknownType);
    PredictedResidue& residue = result.residues.emplace_back();
    residue.name = type == unknownType ? "UNK" : known.names[type];
    residue.confidence = score[r];
    for (int i = 0; i < denseAtoms; ++i)
      if (const int atom = known.atom14To37[type][i]; atom >= 0) {
        const double* at = place + (std::int64_t(r) * denseAtoms + i) * 3;
        residue.atoms.push_back({known.atomNames[atom], {at[0], at[1], at[2]}});
      }
  }
  return result;
}

/// How near the truth it is, where there is one.
nlohmann::ordered_json comparison(const Tensor& positions, const Inputs& truth) {
  const auto ca = [](const Tensor& atoms) { return atoms.select(1, Atom::ca); };
  const Tensor mask = ca(truth.allAtomMask);
  if (mask.sum().item<double>() < 2)
    return nullptr;
  const Metrics by = metrics(ca(positions), ca(truth.allAtomPositions), mask);
  return {{"residues", mask.sum().item<std::int64_t>()},
          {"lddt_ca", by.lddt.item<double>()},
          {"drmsd", by.drmsd.item<double>()},
          {"gdt_ts", by.gdtTs.item<double>()},
          {"gdt_ha", by.gdtHa.item<double>()}};
}

std::string predictOne(AlphaFold& model, const Chain& chain, const PredictOptions& options,
                       at::Device device) {
  const Batch batch = batchOf(chain, options);
  std::vector<Inputs> passes;
  for (std::int64_t pass = 0; pass < options.passes; ++pass) {
    Inputs inputs = inputsOf(batch, pass, 0);
    inputs.settle();
    passes.push_back(inputs.to(device, at::kFloat));
  }
  const Outputs outputs = [&] {
    const models::Autocast autocast(device.type(), models::Autocast::of(options.precision));
    return model(passes);
  }();
  const Tensor& positions = outputs.structure.positions;
  const Tensor confidence = lddtOf(outputs.predictions.lddt).to(at::kCPU, at::kDouble);
  if (!positions.isfinite().all().item<bool>())
    fail(ErrorKind::input, "{}: places of atoms are not finite; are {} trained weights?",
         chain.name, options.weights);
  const PredictedChain files = filesOf(chain, positions, confidence);
  const fs::path base = fs::path(options.out) / chain.name;
  const std::vector<double> scores(confidence.const_data_ptr<double>(),
                                   confidence.const_data_ptr<double>() + confidence.numel());
  const nlohmann::ordered_json truth = comparison(positions, passes.back());
  const nlohmann::ordered_json figures = {{"name", chain.name},
                                          {"weights", options.weights},
                                          {"passes", options.passes},
                                          {"sequence", chain.sequence},
                                          {"mean_plddt", confidence.mean().item<double>()},
                                          {"plddt", scores},
                                          {"truth", truth}};
  writeFile(base.string() + ".pdb", pdbText(files));
  writeFile(base.string() + ".cif", mmcifText(files));
  writeFile(base.string() + ".json", figures.dump(1) + '\n');
  std::string line = fmt::format("{:<12} {:>5} residues, pLDDT {:.1f}", chain.name, chain.length(),
                                 confidence.mean().item<double>());
  if (!truth.is_null())
    line += fmt::format(", lDDT-CA {:.3f}, dRMSD {:.2f} A, GDT-TS {:.3f}",
                        truth["lddt_ca"].get<double>(), truth["drmsd"].get<double>(),
                        truth["gdt_ts"].get<double>());
  return line;
}

} // namespace

void predict(const PredictOptions& options) {
  const at::NoGradGuard constant;
  const at::Device device = models::deviceOf(options.device);
  models::setPrecision(options.precision, /*deterministic=*/false);
  AlphaFold model = modelOf(options);
  if (!options.exportTo.empty()) {
    model->writeWeights(options.exportTo);
    std::cout << options.exportTo << '\n';
  }
  if (options.sequences.empty() && options.structures.empty() && options.features.empty())
    return;
  model->to(device);
  models::makeFolder(options.out);
  const std::vector<CacheEntry> proteins = chosen(proteinsOf(options), namesIn(options.chains));
  if (proteins.empty())
    fail(ErrorKind::input, "no protein is left to predict: all that were given were left out");
  for (const CacheEntry& one : proteins)
    std::cout << predictOne(model, readChain(one.path), options, device) << std::endl;
}

} // namespace kiln::alphafold
