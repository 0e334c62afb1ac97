// Times training steps, and the parts of the model one by one, on proteins that nobody has seen: no
// file is needed.
#include "models/alphafold/train/Run.h"

#include "kiln/torch.h"
#include "models/alphafold/train/Data.h"
#include "models/alphafold/train/Synthetic.h"
#include "models/alphafold/train/Trainer.h"
#include "models/common/Device.h"
#include "models/common/Graph.h"
#include "models/common/Precision.h"
#include "models/common/Program.h"
#include "models/common/Recompute.h"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>
#include <torch/csrc/autograd/autograd.h>

#include <chrono>
#include <iostream>

namespace kiln::alphafold {

using at::Tensor;
using models::Tensors;

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

double millisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

/// One protein again and again, in memory as a loader's.
class OneProtein : public Source {
 public:
  OneProtein(const TrainOptions& options, at::Device device) {
    const ExampleOptions example = exampleOf(options);
    protein = syntheticInputs({.residues = example.crop,
                               .clusters = example.clusters,
                               .extra = example.extraRows,
                               .templates = example.templates,
                               .padding = 0},
                              std::uint64_t(options.seed));
    if (device.is_cuda())
      protein.each([](const char*, Tensor& tensor) {
        if (tensor.defined())
          tensor = tensor.pin_memory();
      });
  }

  std::vector<std::vector<Inputs>> batch(std::int64_t) override {
    return {std::vector<Inputs>(std::size_t(passes), protein)};
  }

  std::int64_t passes = 1;
  Inputs protein;
};

/// What all lines say.
Json lineOf(const TrainOptions& options, at::Device device, int ranks = 1) {
  const ExampleOptions example = exampleOf(options);
  return {{"source", "train_alphafold"},    {"kiln", options.kiln},
          {"model", options.size},          {"precision", options.precision},
          {"recompute", options.recompute}, {"graphs", options.graphs},
          {"device", device.str()},         {"ranks", ranks},
          {"crop", example.crop},           {"rows", example.clusters + example.templates},
          {"extra", example.extraRows}};
}

void benchSteps(const TrainOptions& options, const dist::Group& group, Trainer& trainer,
                OneProtein& source) {
  constexpr int warmup = 3;
  const at::Device device = group.device();
  for (std::int64_t passes = 1; passes <= options.passes; ++passes) {
    source.passes = passes;
    trainer.step();
    kiln::wait(); // until its kernels are there
    for (int i = 1; i < warmup; ++i)
      trainer.step();
    models::synchronize(device);
    if (!options.graphs) // whose memory was taken when they were captured
      models::resetPeakMemory(device);
    Trainer::Step last{};
    const auto begin = Clock::now();
    for (std::int64_t i = 0; i < options.bench; ++i)
      last = trainer.step();
    models::synchronize(device);
    const double milliseconds = millisecondsSince(begin) / double(options.bench);
    if (group.rank() > 0)
      continue;
    Json line = lineOf(options, device, group.size());
    line["passes"] = passes;
    line["steps"] = options.bench;
    line["step_ms"] = milliseconds;
    line["peak_memory_gib"] = models::peakMemory(device) / 0x1p30;
    line["loss"] = last.loss;
    std::cout << line.dump() << std::endl;
  }
}

/// A part of the model, as often as a pass runs it: what it makes of its inputs.
struct Part {
  const char* name;
  std::int64_t count;
  Tensors inputs;
  std::function<Tensors(const Tensors&)> forward;
};

/// Forward and backward of a part, each as often as it is asked for.
class PartRun {
 public:
  PartRun(const TrainOptions& options, at::Device device, AlphaFold& model, const Part& part)
      : part(part), device(device), model(model),
        autocast(models::Autocast::of(options.precision)) {}

  /// As in a step, inputs and parameters get gradients, which are added to none of before.
  void begin() {
    for (const Tensor& parameter : model->parameters())
      parameter.mutable_grad().reset();
    made.clear();
    inputs.clear();
    for (const Tensor& one : part.inputs)
      inputs.push_back(one.detach().requires_grad_(one.is_floating_point()));
  }
  void forward() { // gradients are computed in the dtypes of results
    const models::Autocast cast(device.type(), autocast);
    made = part.forward(inputs);
  }
  void askForGradients() {
    gradients.clear();
    for (const Tensor& one : made)
      gradients.push_back(at::ones_like(one));
  }
  void backward() { torch::autograd::backward(made, gradients); }

 private:
  const Part& part;
  at::Device device;
  AlphaFold& model;
  models::Autocast::State autocast;
  Tensors inputs, made, gradients;
};

double millisecondsOf(at::Device device, const std::function<void()>& work) {
  models::synchronize(device);
  const auto begin = Clock::now();
  work();
  models::synchronize(device);
  return millisecondsSince(begin);
}

/// Forward and backward of a part apart, each with all launches waited for; as two graphs where the
/// run has graphs, so that the host's time is not in it.
void benchPart(const TrainOptions& options, at::Device device, AlphaFold& model, const Part& part) {
  constexpr int warmup = 3;
  PartRun run(options, device, model, part);
  const auto launch = [&](double& forward, double& backward) {
    run.begin();
    forward += millisecondsOf(device, [&] { run.forward(); });
    run.askForGradients();
    backward += millisecondsOf(device, [&] { run.backward(); });
  };
  double forward = 0, backward = 0;
  for (int i = 0; i < warmup; ++i)
    launch(forward, backward);
  kiln::wait();
  models::resetPeakMemory(device);
  std::unique_ptr<models::StepGraph> forwards, backwards;
  if (options.graphs) {
    run.begin();
    forwards = std::make_unique<models::StepGraph>(device, [&] { run.forward(); });
    run.askForGradients();
    backwards =
        std::make_unique<models::StepGraph>(device, [&] { run.backward(); }, forwards.get());
  }
  forward = backward = 0;
  for (std::int64_t i = -1; i < options.bench; ++i) {
    if (i == 0)
      forward = backward = 0;
    if (!options.graphs) {
      launch(forward, backward);
      continue;
    }
    forward += millisecondsOf(device, [&] { forwards->replay(); });
    backward += millisecondsOf(device, [&] { backwards->replay(); });
  }
  Json line = lineOf(options, device);
  line["part"] = part.name;
  line["count"] = part.count;
  line["forward_ms"] = forward / double(options.bench);
  line["backward_ms"] = backward / double(options.bench);
  line["peak_memory_gib"] = models::peakMemory(device) / 0x1p30;
  std::cout << line.dump() << std::endl;
}

/// What parts read: representations as a pass makes them.
struct Stages {
  Inputs inputs;
  Representations embedded, withTemplates, extra;
  Masks masks, extraMasks;
  Trunk trunk;
};

Stages stagesOf(AlphaFold& model, const Inputs& inputs) {
  const at::NoGradGuard constant;
  Stages s;
  s.inputs = inputs;
  s.embedded = model->recyclingEmbedder(model->inputEmbedder(inputs), model->nothing(inputs));
  s.withTemplates = s.embedded;
  s.masks = model->masksOf(inputs);
  s.extraMasks = {inputs.isExtraMsaFull ? Tensor() : inputs.extraMsaMask, s.masks.pair};
  if (inputs.hasTemplates()) {
    const auto [rows, pairs] = model->templateEmbedder(inputs, s.embedded.z, s.masks.pair);
    s.withTemplates = {at::cat({s.embedded.m, rows}), s.embedded.z + pairs};
  }
  s.extra = {model->extraMsaEmbedder(inputs.extraMsaFeat), s.withTemplates.z};
  s.trunk = model->evoformer(s.withTemplates, s.masks);
  return s;
}

std::vector<Part> partsOf(AlphaFold& model, const Stages& s, const LossConfig& weights) {
  const auto both = [](const Representations& x) { return Tensors{x.m, x.z}; };
  std::vector<Part> parts;
  parts.push_back({"embedders", 1, {s.inputs.msaFeat}, [&](const Tensors& x) {
                     Inputs inputs = s.inputs;
                     inputs.msaFeat = x[0];
                     return both(model->recyclingEmbedder(model->inputEmbedder(inputs),
                                                          model->nothing(inputs)));
                   }});
  if (s.inputs.hasTemplates())
    parts.push_back({"template_embedder", 1, {s.embedded.z}, [&](const Tensors& x) {
                       return both(model->templateEmbedder(s.inputs, x[0], s.masks.pair));
                     }});
  parts.push_back({"extra_msa_block", std::int64_t(model->extraMsaStack->blocks->size()),
                   both(s.extra), [&](const Tensors& x) {
                     auto& block = *model->extraMsaStack->blocks[0]->as<ExtraMsaBlock>();
                     return both(block.forward({x[0], x[1]}, s.extraMasks));
                   }});
  parts.push_back({"evoformer_block", std::int64_t(model->evoformer->blocks->size()),
                   both(s.withTemplates), [&](const Tensors& x) {
                     auto& block = *model->evoformer->blocks[0]->as<EvoformerBlock>();
                     return both(block.forward({x[0], x[1]}, s.masks));
                   }});
  parts.push_back({"structure_module", 1, {s.trunk.s, s.trunk.z}, [&](const Tensors& x) {
                     const PredictedStructure found =
                         model->structureModule(x[0], x[1], s.inputs.aatype, s.inputs.seqMask);
                     return Tensors{found.positions, found.single};
                   }});
  parts.push_back({"structure_module_heads_losses",
                   1,
                   {s.trunk.m, s.trunk.z, s.trunk.s},
                   [&](const Tensors& x) {
                     Outputs outputs;
                     outputs.structure =
                         model->structureModule(x[2], x[1], s.inputs.aatype, s.inputs.seqMask);
                     const Tensor clusters = x[0].slice(0, 0, s.inputs.msaFeat.size(0));
                     outputs.predictions =
                         model->heads(HeadInputs{clusters, x[1], x[2], outputs.structure.single});
                     return Tensors{losses(outputs, s.inputs, weights).total};
                   }});
  return parts;
}

/// Clip, Adam and averages, on gradients of any size; as a graph where the run has graphs.
void benchUpdate(const TrainOptions& options, at::Device device, AlphaFold& model) {
  models::Updater updater(*model, updateOptions(options));
  models::Ema ema(*model, options.ema);
  const auto giveGradients = [&] {
    for (Tensor& parameter : model->parameters())
      parameter.mutable_grad() = at::full_like(parameter, 1e-4);
  };
  const auto update = [&] {
    updater.step(0);
    ema.update();
  };
  constexpr int warmup = 3;
  for (int i = 0; i < warmup; ++i) {
    giveGradients();
    update();
  }
  kiln::wait();
  giveGradients();
  Tensors read; // by replays, which need them where they are
  for (const Tensor& parameter : model->parameters())
    read.push_back(parameter.grad());
  std::unique_ptr<models::StepGraph> graph;
  if (options.graphs && updater.canBeCaptured())
    graph = std::make_unique<models::StepGraph>(device, update);
  double sum = 0;
  for (std::int64_t i = 0; i < options.bench; ++i) {
    giveGradients();
    sum +=
        graph ? millisecondsOf(device, [&] { graph->replay(); }) : millisecondsOf(device, update);
  }
  Json line = lineOf(options, device);
  line["part"] = "clip_adam_average";
  line["count"] = 1;
  line["forward_ms"] = sum / double(options.bench);
  std::cout << line.dump() << std::endl;
}

} // namespace

void bench(const TrainOptions& options) {
  const auto group = models::startGroup(options.ranks, options.device, options.kiln);
  const at::Device device = group->device();
  OneProtein source(options, device);
  Trainer trainer(options, source, group);
  benchSteps(options, *group, trainer, source);
  if (options.profile > 0)
    models::profileSteps([&] { trainer.step(); }, device, options.profile);
  if (group->size() > 1) // parts know nothing of other ranks
    return;
  trainer.clear();
  models::releaseFreedMemory(device);
  AlphaFold& model = trainer.network();
  Inputs inputs = source.protein;
  inputs.settle();
  Stages stages = [&] {
    const models::Autocast autocast(device.type(), models::Autocast::of(options.precision));
    return stagesOf(model, inputs.to(device, at::kFloat));
  }();
  for (const Part& part : partsOf(model, stages, LossConfig::named(options.stage)))
    benchPart(options, device, model, part);
  benchUpdate(options, device, model);
  if (!options.recordShapes.empty())
    kiln::recordShapes(options.recordShapes);
}

} // namespace kiln::alphafold
