// See Trainer.h.
#include "models/alphafold/train/Trainer.h"

#include "models/alphafold/model/AtomTables.h"
#include "models/common/Device.h"
#include "models/common/Fail.h"
#include "models/common/Precision.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace kiln::alphafold {

namespace fs = std::filesystem;
using at::Tensor;
using models::fail;

namespace {

TrainOptions checked(TrainOptions options) {
  options.check();
  models::setPrecision(options.precision, options.deterministic);
  return options;
}

AlphaFold makeModel(const TrainOptions& options, at::Device device) {
  at::manual_seed(std::uint64_t(options.seed));
  AlphaFold model(options.model);
  model->setRecompute(options.recompute == "blocks");
  model->to(device);
  return model;
}

} // namespace

models::UpdateOptions updateOptions(const TrainOptions& options) {
  return {.learningRate = options.learningRate,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .eps = options.eps,
          .clip = options.clip,
          .kiln = options.kiln != "off"};
}

namespace {

/// Without dropout, for a scope.
class Evaluating {
 public:
  explicit Evaluating(AlphaFold& model) : model(model) { model->eval(); }
  ~Evaluating() { model->train(); }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  AlphaFold& model;
};

} // namespace

Trainer::Trainer(TrainOptions given, Source& source)
    : options(checked(std::move(given))), source(source), device(models::deviceOf(options.device)),
      model(makeModel(options, device)), updater(*model, updateOptions(options)),
      ema(*model, options.ema), weights(LossConfig::named(options.stage)) {}

std::vector<Inputs> Trainer::onDevice(std::vector<Inputs> passes) const {
  for (Inputs& inputs : passes) {
    inputs.settle();
    inputs = inputs.to(device, at::kFloat);
  }
  return passes;
}

Losses Trainer::lossOf(const std::vector<Inputs>& passes, PredictedStructure* structure) {
  const models::Autocast autocast(device.type(), models::Autocast::of(options.precision));
  const Outputs outputs = model(passes);
  if (structure)
    *structure = outputs.structure;
  return losses(outputs, passes.back(), weights);
}

/// Adds a protein's share of the means.
void Trainer::accumulate(Step& step, const Losses& found, double share) {
  step.loss += share * found.total.item<double>();
  if (step.terms.empty())
    for (const Term& term : found.terms)
      step.terms.push_back({term.name, term.weight, at::zeros({}, at::kDouble)});
  for (std::size_t i = 0; i < found.terms.size(); ++i)
    step.terms[i].value += share * found.terms[i].value;
  step.nonFinite = found.nonFinite();
}

Trainer::Step Trainer::step() {
  constexpr std::int64_t mostRefused = 10;
  Step now{.loss = 0,
           .terms = {},
           .norm = {},
           .rate = learningRate(options, done),
           .passes = 0,
           .nonFinite = {}};
  const auto proteins = source.batch(done);
  const double share = 1.0 / double(proteins.size());
  for (const auto& protein : proteins) {
    now.passes = std::ssize(protein);
    const Losses found = lossOf(onDevice(protein));
    accumulate(now, found.onHost(), share);
    if (!now.nonFinite.empty())
      break;
    (found.total * share).backward();
  }
  if (now.nonFinite.empty()) {
    now.norm = updater.step(now.rate);
    ema.update();
    refused = 0;
  } else {
    updater.clear();
    if (++refused == mostRefused)
      fail(ErrorKind::input,
           "{} steps in a row had losses that are not finite, at step {}: {}; try a smaller "
           "--learning-rate than {}",
           mostRefused, done, now.nonFinite, options.learningRate);
  }
  ++done;
  return now;
}

Trainer::Evaluation Trainer::evaluate(Source& other, std::int64_t steps) {
  const at::NoGradGuard constant;
  const models::Ema::Exchanged averaged(ema);
  const Evaluating quiet(model);
  Tensor sums = at::zeros({5}, at::kDouble);
  std::int64_t count = 0;
  for (std::int64_t step = 0; step < steps; ++step)
    for (const auto& protein : other.batch(step)) {
      const auto passes = onDevice(protein);
      PredictedStructure found;
      const Losses loss = lossOf(passes, &found);
      const Inputs& truth = passes.back();
      const auto ca = [](const Tensor& atoms) { return atoms.select(1, Atom::ca); };
      const Metrics by =
          metrics(ca(found.positions), ca(truth.allAtomPositions), ca(truth.allAtomMask));
      sums +=
          at::stack({loss.total, by.lddt, by.drmsd, by.gdtTs, by.gdtHa}).to(at::kCPU, at::kDouble);
      ++count;
    }
  const auto mean = [&](std::int64_t i) { return sums[i].item<double>() / double(count); };
  return {mean(0), mean(1), mean(2), mean(3), mean(4)};
}

fs::path Trainer::save() const {
  auto tensors = models::stateOf(*model, updater, device);
  for (models::NamedTensor& average : ema.state())
    tensors.push_back(std::move(average));
  return models::writeCheckpoint(options.out, done, options.keep, tensors,
                                 {{"model", options.model.text()}});
}

void Trainer::saveAverages(const fs::path& path) {
  const models::Ema::Exchanged averaged(ema);
  std::vector<models::NamedTensor> tensors;
  for (const auto& parameter : model->named_parameters())
    tensors.push_back({parameter.key(), parameter.value()});
  models::writeSafetensors(path, tensors, {{"format", "pt"}, {"model", options.model.text()}});
}

void Trainer::beginWith(const fs::path& weights) {
  models::readParameters(models::Safetensors(weights), *model);
  ema = models::Ema(*model, options.ema);
}

void Trainer::resume(const fs::path& path) {
  const models::Checkpoint from(path);
  const std::string& made = from.tensors().text("model");
  if (ModelConfig::parse(made) != options.model)
    fail(ErrorKind::input, "{} holds a model of {}, and the options make one of {}", path.string(),
         made, options.model.text());
  from.load(*model);
  from.load(updater);
  ema.restore(from.tensors());
  from.loadRandom(device);
  done = from.step();
  refused = 0;
}

} // namespace kiln::alphafold
