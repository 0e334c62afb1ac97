// See Trainer.h.
#include "models/alphafold/train/Trainer.h"

#include "kiln/torch.h"
#include "models/alphafold/losses/Lddt.h"
#include "models/alphafold/model/AtomTables.h"
#include "models/common/Device.h"
#include "models/common/Fail.h"
#include "models/common/Precision.h"
#include "models/common/Random.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

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
  model->setRecompute(recomputedBlocks(options.recompute));
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

Tensor ca(const Tensor& atoms) {
  return atoms.select(1, Atom::ca);
}

/// The mean over residues, fp64.
Tensor caLddt(const PredictedStructure& found, const Inputs& truth) {
  const at::NoGradGuard constant;
  const Tensor mask = ca(truth.allAtomMask);
  const Tensor scores = lddt(ca(found.positions.detach()), ca(truth.allAtomPositions), mask);
  return ((scores * mask).sum() / mask.sum().clamp_min(1)).to(at::kDouble);
}

/// What decides which kernels a step runs: passes, sizes, templates, masks that are full.
std::string kindOf(const std::vector<std::vector<Inputs>>& proteins) {
  std::string kind;
  for (const auto& protein : proteins)
    for (const Inputs& inputs : protein) {
      inputs.each([&](const char*, const Tensor& tensor) {
        kind += tensor.defined() ? fmt::format("{},", fmt::join(tensor.sizes(), "x")) : "-,";
      });
      kind += fmt::format("{}{}{};", int(inputs.isSeqFull), int(inputs.isMsaFull),
                          int(inputs.isExtraMsaFull));
    }
  return kind;
}

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
    : Trainer(given, source, dist::Group::alone(models::deviceOf(given.device))) {}

Trainer::Trainer(TrainOptions given, Source& source, std::shared_ptr<dist::Group> ranks)
    : options(checked(std::move(given))), source(source), group(std::move(ranks)),
      device(group->device()), model(makeModel(options, device)),
      updater(*model, updateOptions(options)), ema(*model, options.ema),
      weights(LossConfig::named(options.stage)), copies(device) {
  if (options.graphs)
    models::needGraphs(device);
  if (group->size() == 1)
    return;
  auto chosen = models::dataParallelOptions(options.ranks);
  chosen.deferred = options.graphs; // ranks capture graphs of other kinds at other steps
  parallel = std::make_unique<dist::DataParallel>(*model, group, chosen);
}

std::vector<Inputs> Trainer::onDevice(std::vector<Inputs> passes) const {
  for (Inputs& inputs : passes) {
    inputs.settle();
    inputs = inputs.to(device, at::kFloat);
  }
  return passes;
}

Trainer::Proteins Trainer::staged(std::int64_t step) {
  Proteins proteins = source.batch(step);
  copies.enqueue([&] {
    for (auto& protein : proteins)
      protein = onDevice(std::move(protein));
  });
  return proteins;
}

Trainer::Found Trainer::found(const std::vector<Inputs>& passes) {
  const models::Autocast autocast(device.type(), models::Autocast::of(options.precision));
  const Outputs outputs = model(passes);
  return {losses(outputs, passes.back(), weights), outputs.structure};
}

/// What is drawn for a protein, by dropout, follows from its number in the run alone: whichever
/// rank has it, and after a resume. A graph draws for its proteins as from the first one on.
void Trainer::seed(std::size_t protein) const {
  constexpr std::uint64_t purpose = 5; // of this sequence of random numbers
  const std::int64_t first = (done * group->size() + group->rank()) * options.batch;
  models::Random random(std::uint64_t(options.seed), {purpose, std::uint64_t(first) + protein});
  at::manual_seed(random.next());
}

/// Forward and backward: of each protein loss, terms and lDDT, on the device.
Tensor Trainer::enqueue(const Proteins& proteins, bool sends) {
  const double share = 1.0 / double(proteins.size());
  const models::Casts::Scope once(casts);
  std::vector<Tensor> values;
  for (std::size_t i = 0; i < proteins.size(); ++i) {
    if (!options.graphs)
      seed(i);
    const auto [loss, structure] = found(proteins[i]);
    names = loss;
    values.push_back(at::cat({loss.packed(), caLddt(structure, proteins[i].back()).view(1)}));
    models::backward(loss.total * share, parallel.get(), sends && i + 1 == proteins.size());
  }
  names.total.reset();
  return at::stack(values);
}

/// Graphs of all kinds share their memory: any of those that there are.
models::StepGraph* Trainer::anyGraph() const {
  for (const auto& one : captured)
    if (one.second.graph)
      return one.second.graph.get();
  return nullptr;
}

/// The first time a graph is captured, which computes nothing.
Trainer::Captured& Trainer::replay(const Proteins& proteins, const std::string& kind) {
  const auto parameters = model->parameters();
  const auto [entry, isNew] = captured.try_emplace(kind);
  Captured& now = entry->second;
  if (isNew) {
    const models::StepGraph* beside = anyGraph();
    now.proteins = proteins;
    now.graph = std::make_unique<models::StepGraph>(
        device, [&] { now.values = enqueue(now.proteins); }, beside);
    for (const Tensor& parameter : parameters)
      now.gradients.push_back(parameter.grad());
  } else {
    for (std::size_t i = 0; i < proteins.size(); ++i)
      for (std::size_t pass = 0; pass < proteins[i].size(); ++pass)
        now.proteins[i][pass].copyFrom(proteins[i][pass]);
  }
  seed(0);
  now.graph->replay();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i].mutable_grad() = now.gradients[i];
  if (parallel)
    parallel->syncGrad();
  return now;
}

/// Whether all graphs have gradients of the same parameters: the optimizer counts the steps of a
/// set of parameters in one place, which all graphs of updates advance.
bool Trainer::updatesAlike() const {
  const auto isAlike = [](const Tensor& a, const Tensor& b) { return a.defined() == b.defined(); };
  const auto& first = captured.begin()->second.gradients;
  return std::ranges::all_of(captured, [&](const auto& one) {
    return std::ranges::equal(one.second.gradients, first, isAlike);
  });
}

/// Clip, Adam and averages; the gradient's norm before the clip. `by`: a step's graphs, if there
/// are some.
Tensor Trainer::update(Captured* by, double rate) {
  const auto launch = [&] {
    const Tensor norm = updater.step(rate);
    ema.update();
    return norm;
  };
  if (!by || !std::exchange(by->wasUpdated, true) || !updater.canBeCaptured() || !updatesAlike())
    return launch();
  updater.setRate(rate);
  if (!by->update)
    by->update =
        std::make_unique<models::StepGraph>(device, [&] { by->norm = launch(); }, by->graph.get());
  by->update->replay();
  updater.replayed();
  updater.clear();
  return by->norm;
}

/// What is compiled, chosen or allocated once is there before a kind of step is first made, so that
/// what it computes does not depend on when that was. Graphs lend their memory, beside which there
/// may be no room for another step.
void Trainer::rehearse(const Proteins& proteins, const std::string& kind) {
  if ((options.kiln == "off" && !options.graphs) || !rehearsed.insert(kind).second)
    return;
  const auto once = [&] {
    enqueue(proteins, /*sends=*/false);
    updater.clear();
    kiln::wait();
  };
  models::StepGraph* graph = anyGraph();
  for (int i = 0; i < (options.graphs ? 2 : 1); ++i)
    if (graph)
      graph->lendMemory(once);
    else
      once();
}

void Trainer::clear() {
  updater.clear();
  captured.clear();
  rehearsed.clear();
}

/// Those of rank 0's proteins first.
Tensor Trainer::ofAllRanks(const Tensor& values) const {
  if (group->size() == 1)
    return values;
  Tensor all = at::empty({group->size() * values.size(0), values.size(1)}, values.options());
  group->allGather(all, values).wait();
  return all;
}

Trainer::Step Trainer::read(const Tensor& values, const Proteins& proteins) const {
  Step now{.loss = 0,
           .lddt = 0,
           .terms = {},
           .norm = {},
           .rate = learningRate(options, done),
           .passes = std::ssize(proteins.front()),
           .nonFinite = {}};
  for (std::int64_t i = 0; i < values.size(0) && now.nonFinite.empty(); ++i)
    now.nonFinite = names.unpacked(values[i]).nonFinite();
  const Tensor means = values.mean(0);
  const Losses mean = names.unpacked(means);
  now.loss = mean.total.item<double>();
  now.terms = mean.terms;
  now.lddt = means[-1].item<double>();
  return now;
}

Trainer::Step Trainer::step() {
  constexpr std::int64_t mostRefused = 10;
  group->setStep(done);
  const Proteins proteins = next ? std::move(*next) : staged(done);
  next.reset();
  copies.join();
  for (const auto& protein : proteins)
    for (const Inputs& inputs : protein)
      inputs.each([&](const char*, const Tensor& tensor) { copies.use(tensor); });
  const std::string kind = kindOf(proteins);
  rehearse(proteins, kind);
  Captured* by = options.graphs ? &replay(proteins, kind) : nullptr;
  models::HostCopy values(ofAllRanks(by ? by->values : enqueue(proteins)));
  if (device.is_cuda() && done + 1 < options.steps)
    next = staged(done + 1);
  Step now = read(values.get(), proteins);
  if (now.nonFinite.empty()) {
    now.norm = update(by, now.rate);
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
  double count = 0;
  for (std::int64_t step = group->rank(); step < steps; step += group->size())
    for (const auto& protein : other.batch(step)) {
      if (ca(protein.back().allAtomMask).sum().item<double>() < 2)
        continue; // its crop shows nothing that could be compared
      const auto passes = onDevice(protein);
      const auto [loss, structure] = found(passes);
      const Inputs& truth = passes.back();
      const Metrics by =
          metrics(ca(structure.positions), ca(truth.allAtomPositions), ca(truth.allAtomMask));
      sums +=
          at::stack({loss.total, by.lddt, by.drmsd, by.gdtTs, by.gdtHa}).to(at::kCPU, at::kDouble);
      ++count;
    }
  count = group->sum(count);
  if (count == 0)
    fail(ErrorKind::input,
         "none of {} proteins to evaluate on has two resolved residues in its "
         "crop; try a larger --crop or other proteins",
         steps);
  const auto mean = [&](std::int64_t i) { return group->sum(sums[i].item<double>()) / count; };
  return {mean(0), mean(1), mean(2), mean(3), mean(4)};
}

fs::path Trainer::save() {
  auto tensors = models::stateOf(updater, device);
  for (models::NamedTensor& average : ema.state())
    tensors.push_back(std::move(average));
  return models::writeCheckpoint(options.out, done, options.keep, tensors,
                                 {{"model", options.model.text()}, {"options", options.text()}});
}

void Trainer::saveAverages(const fs::path& path) {
  const models::Ema::Exchanged averaged(ema);
  model->writeWeights(path);
}

void Trainer::beginWith(const fs::path& weights) {
  models::readParameters(models::Safetensors(weights), *model);
  ema = models::Ema(*model, options.ema);
  captured.clear(); // whose updates average into other tensors
}

void Trainer::resume(const fs::path& path) {
  const models::Checkpoint from(path);
  const ModelConfig made = ModelConfig::parse(from.tensors().text("model"));
  if (const std::string unlike = made.unlike(options.model); !unlike.empty())
    fail(ErrorKind::input,
         "{} holds another model than the options make: {}; --config={} has its options",
         path.string(), unlike, (path.parent_path() / "config.json").string());
  from.load(updater);
  ema.restore(from.tensors());
  done = from.step();
  refused = 0;
  next.reset();
  captured.clear(); // of tensors that are others now
  rehearsed.clear();
}

} // namespace kiln::alphafold
