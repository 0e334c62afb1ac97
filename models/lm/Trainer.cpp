// See Trainer.h.
#include "models/lm/Trainer.h"

#include "kiln/torch.h"
#include "models/common/Device.h"
#include "models/common/Fail.h"
#include "models/common/Precision.h"
#include "models/common/Products.h"
#include "models/common/Program.h"
#include "models/lm/Layers.h"
#include "models/lm/Schedule.h"

namespace kiln::lm {

namespace fs = std::filesystem;
using at::Tensor;

namespace {

/// Whether products read weights in bf16 that the optimizer writes.
bool isHalf(const Options& options) {
  return options.kiln == "modules" && options.precision == "bf16";
}

Transformer makeModel(Options& options, const Tokenizer& tokenizer, at::Device device) {
  options.model.vocabulary = tokenizer.vocabulary();
  at::manual_seed(std::uint64_t(options.seed));
  Parts parts{.modules = options.kiln == "modules"};
  if (options.precision == "bf16")
    parts.products = at::kBFloat16;
  Transformer model(options.model, parts);
  model->recompute = options.recompute;
  model->to(device);
  return model;
}

/// Makes the weights that products read bf16. What they were is returned.
std::vector<NamedTensor> halve(torch::nn::Module& model) {
  std::vector<NamedTensor> masters;
  for (const auto& module : model.named_modules("", /*include_self=*/false))
    if (auto* linear = module.value()->as<LinearImpl>()) {
      masters.push_back({module.key() + ".weight", linear->weight.detach()});
      linear->weight.set_data(linear->weight.detach().to(at::kBFloat16));
    }
  return masters;
}

/// Those of a layer in order, but matrices of one tensor one behind the other.
std::vector<LinearImpl*> linearsOf(torch::nn::Module& model) {
  std::vector<LinearImpl*> linears;
  const auto add = [&](LinearImpl* one) {
    if (std::ranges::find(linears, one) == linears.end())
      linears.push_back(one);
  };
  for (const auto& module : model.modules())
    if (auto* gated = module->as<FeedForwardImpl>()) {
      add(gated->w1.get());
      add(gated->w3.get());
    } else if (auto* linear = module->as<LinearImpl>()) {
      add(linear);
    }
  return linears;
}

/// Of weights that products read in bf16, one behind the other, so that those of one tensor are one
/// matrix.
void addCopies(torch::nn::Module& model, Updater& updater) {
  const std::vector<LinearImpl*> linears = linearsOf(model);
  std::vector<Tensor> weights;
  for (const LinearImpl* linear : linears)
    weights.push_back(linear->weight.detach());
  const std::vector<Tensor> copies = models::cast(weights, at::kBFloat16);
  for (std::size_t i = 0; i < linears.size(); ++i) {
    linears[i]->copy = copies[i].detach().requires_grad_();
    updater.bindCopy(linears[i]->weight, linears[i]->copy);
  }
}

} // namespace

UpdateOptions updateOptions(const Options& options) {
  return {.learningRate = options.learningRate,
          .weightDecay = options.weightDecay,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .clip = options.clip,
          .kiln = options.kiln != "off"};
}

Trainer::Trainer(Options given, Data tokens, Tokenizer words)
    : Trainer(given, std::move(tokens), std::move(words),
              dist::Group::alone(deviceOf(given.device))) {}

Trainer::Trainer(Options given, Data tokens, Tokenizer words, std::shared_ptr<dist::Group> ranks)
    : options(std::move(given)), data(std::move(tokens)), tokenizer(std::move(words)),
      group(std::move(ranks)), device(group->device()),
      model(makeModel(options, tokenizer, device)) {
  setPrecision(options.precision, options.deterministic);
  if (options.graphs)
    needGraphs(device);
  data.split(options.heldOut, options.model.context);
  if (group->size() > 1 && options.isSharded())
    makeSharded();
  else
    makeWhole();
}

void Trainer::makeWhole() {
  updater = std::make_unique<Updater>(*model, updateOptions(options));
  if (isHalf(options))
    addCopies(*model, *updater);
  if (group->size() > 1)
    makeParallel();
}

/// Weights in bf16 have no fp32 numbers but their masters, of which each rank keeps its part. Where
/// several batches are summed, the sum is kept in fp32, and so are the weights.
void Trainer::makeSharded() {
  auto chosen = dataParallelOptions(options.ranks);
  chosen.sharded = true;
  const auto masters =
      isHalf(options) && options.accumulate == 1 ? halve(*model) : std::vector<NamedTensor>();
  parallel = std::make_unique<dist::DataParallel>(*model, group, chosen);
  updater = std::make_unique<Updater>(*model, updateOptions(options), *parallel, masters);
  model->before = [updater = updater.get()](const torch::nn::Module& part) { updater->need(part); };
}

/// Gradients are the weights', or those of their copies where no sum of several batches is kept.
void Trainer::makeParallel() {
  std::vector<dist::NamedParameter> leaves;
  std::map<const void*, Tensor> copies;
  for (const auto& module : model->modules())
    if (auto* linear = module->as<LinearImpl>(); linear && linear->copy.defined())
      copies[linear->weight.unsafeGetTensorImpl()] = linear->copy;
  auto chosen = dataParallelOptions(options.ranks);
  chosen.deferred = options.accumulate > 1 && !copies.empty();
  for (const auto& one : model->named_parameters()) {
    const auto copy = copies.find(one.value().unsafeGetTensorImpl());
    const bool byCopy = copy != copies.end() && !chosen.deferred;
    leaves.push_back({one.key(), byCopy ? copy->second : one.value()});
    if (byCopy) // sent at the start, too
      leaves.push_back({one.key() + ", master", one.value().detach()});
  }
  parallel = std::make_unique<dist::DataParallel>(leaves, group, chosen);
}

/// Ranks have one part of a joined batch each, one behind the other.
Batch Trainer::next(std::int64_t part) const {
  const std::int64_t index = done * options.accumulate + part;
  return data.batch(std::uint64_t(options.seed),
                    (index * group->size() + group->rank()) * options.batch, options.batch);
}

Batch Trainer::onDevice(const Batch& batch) const {
  if (device.is_cpu())
    return batch;
  const auto moved = [&](const Tensor& tensor) {
    return tensor.pin_memory().to(device, /*non_blocking=*/true);
  };
  return {moved(batch.inputs), moved(batch.targets)};
}

Tensor Trainer::loss(const Batch& here) {
  const Autocast autocast(device.type(), Autocast::of(options.precision));
  return crossEntropy(model(here.inputs).flatten(0, 1), here.targets.flatten(), model->parts);
}

Trainer::Step Trainer::step() {
  constexpr int warmups = 3; // what is compiled, chosen or allocated once is by then
  group->setStep(done);
  const double rate = learningRate(options, done);
  const Step now = options.graphs && begun >= warmups ? graphStep(rate) : eagerStep(rate);
  ++begun;
  ++done;
  return now;
}

/// The first one captures, which computes nothing; the same kernels in the same order as an eager
/// step's, so that the numbers are the same to the bit.
Trainer::Step Trainer::graphStep(double rate) {
  const Batch batch = next(0);
  updater->setRate(rate);
  if (!graph) {
    captured = onDevice(batch);
    graph = std::make_unique<StepGraph>(device, [&] {
      const Tensor mean = loss(captured);
      mean.backward();
      replayed.loss = mean.detach();
      replayed.norm = updater->step(rate);
    });
  } else {
    captured.inputs.copy_(batch.inputs.pin_memory(), /*non_blocking=*/true);
    captured.targets.copy_(batch.targets.pin_memory(), /*non_blocking=*/true);
  }
  graph->replay();
  updater->replayed();
  replayed.rate = rate;
  return replayed;
}

Trainer::Step Trainer::eagerStep(double rate) {
  Tensor sum;
  for (std::int64_t i = 0; i < options.accumulate; ++i) {
    const Tensor part = loss(onDevice(next(i))) / options.accumulate;
    backward(part, parallel.get(), i + 1 == options.accumulate);
    if (options.accumulate > 1)
      updater->collect();
    sum = sum.defined() ? sum + part.detach() : part.detach();
  }
  if (parallel && parallel->options().deferred)
    parallel->syncGrad();
  return {sum, updater->step(rate), rate};
}

void Trainer::prepare() {
  if (options.kiln == "off")
    return;
  loss(onDevice(data.batch(std::uint64_t(options.seed), 0, options.batch))).backward();
  updater->clear();
  kiln::wait();
}

double Trainer::evaluate() {
  const torch::NoGradGuard constant;
  double sum = 0;
  for (std::int64_t i = 0; i < options.evaluateBatches; ++i) {
    const std::int64_t mine = i * group->size() + group->rank();
    sum += loss(onDevice(data.heldOutBatch(mine, options.batch))).item<double>();
  }
  return group->sum(sum) / double(options.evaluateBatches * group->size());
}

fs::path Trainer::save() {
  const auto state = stateOf(*updater, device);
  return group->rank() > 0 ? fs::path() : saveCheckpoint(options, done, state, tokenizer);
}

void Trainer::resume(const fs::path& path) {
  const Checkpoint from(path);
  if (from.model() != options.model)
    fail(ErrorKind::input,
         "{} holds a model of {}, and the options make one of {}; --config={} has "
         "its options",
         path.string(), from.model().text(), options.model.text(),
         (path.parent_path() / "config.json").string());
  if (from.tokenizer().text() != tokenizer.text())
    fail(ErrorKind::input, "{} was trained on tokens of another tokenizer", path.string());
  graph.reset(); // it wrote to tensors that are others now
  begun = 0;
  from.load(*updater);
  from.loadRandom(device);
  done = from.step();
}

/// Whether the run goes on.
bool Trainer::advance(Progress& progress, const Signals& signals) {
  const Step now = step();
  if (isEvery(done, options.logEvery) || done == options.steps) {
    const double loss = group->sum(now.loss.item<double>()) / group->size();
    if (!std::isfinite(loss))
      fail(ErrorKind::input, "the loss is {} at step {}: try a smaller --learning-rate than {}",
           loss, done, options.learningRate);
    progress.show({done, loss, now.rate, now.norm.item<double>()});
  }
  const bool ends = group->agreed(signals.stop()) || done == options.steps;
  const bool evaluates = isEvery(done, options.evaluateEvery) || done == options.steps;
  if (evaluates && options.evaluateEvery > 0 && data.heldOut() > 0) {
    progress.say(fmt::format("step {:>6}  held-out loss {:.4f}", done, evaluate()));
    progress.restart(done);
  }
  if (isEvery(done, options.checkpointEvery) || ends) {
    progress.say(fmt::format("step {:>6}  {}", done, save().string()));
    progress.restart(done);
  }
  return !ends;
}

void Trainer::run() {
  const Signals signals;
  prepare();
  Progress progress(options, *group);
  progress.say(fmt::format("{:.1f} M parameters, {} tokens to train on and {} held out, on {}{}{}",
                           double(options.model.parameters()) / 1e6, data.trained(), data.heldOut(),
                           device.str(),
                           group->size() > 1 ? fmt::format(", {} ranks", group->size()) : "",
                           done > 0 ? fmt::format(", from step {}", done) : ""));
  progress.restart(done);
  inGroup(*group, [&] {
    while (done < options.steps && advance(progress, signals)) {
    }
  });
}

} // namespace kiln::lm
