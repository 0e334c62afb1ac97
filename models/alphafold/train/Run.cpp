// See Run.h.
#include "models/alphafold/train/Run.h"

#include "kiln/files.h"
#include "kiln/torch.h"
#include "models/alphafold/train/Data.h"
#include "models/alphafold/train/Progress.h"
#include "models/alphafold/train/Trainer.h"
#include "models/common/Device.h"
#include "models/common/Fail.h"
#include "models/common/Program.h"
#include "models/common/Signals.h"

#include <iostream>

namespace kiln::alphafold {

namespace fs = std::filesystem;

namespace {

/// What a run goes through, step by step, with evaluations and checkpoints between.
class Run {
 public:
  explicit Run(const TrainOptions& options)
      : options(options), device(models::deviceOf(options.device)), progress(options, device),
        data(options, open(options.data, options.cache, "features")), trainer(options, data) {
    if (!options.validation.empty() && options.evaluateEvery > 0)
      validation.emplace(options, open(options.validation, {}, "validation"));
  }

  void begin() {
    if (!options.resume.empty())
      trainer.resume(options.resume == "latest" ? models::latestCheckpoint(options.out)
                                                : fs::path(options.resume));
    else if (!options.weights.empty())
      trainer.beginWith(options.weights);
    writeFile(fs::path(options.out) / "config.json", options.text() + '\n');
    const std::int64_t done = trainer.position();
    progress.say(fmt::format("{:.2f} M parameters, {} chains to train on, on {}{}",
                             double(trainer.network()->parameterCount()) / 1e6,
                             data.dataset().entries().size(), device.str(),
                             done > 0 ? fmt::format(", from step {}", done) : ""));
    progress.restart(done, data.waited());
  }

  void profile() {
    models::profileSteps([&] { trainer.step(); }, device, options.profile);
  }

  void goOn() {
    const models::Signals signals;
    while (trainer.position() < options.steps && !signals.stop())
      advance(signals);
  }

 private:
  Dataset open(const fs::path& folder, const fs::path& cache, const char* name) {
    return openDataset(options, folder, cache.empty() ? fs::path(options.out) / name : cache,
                       [&](const std::string& text) { progress.say(text); });
  }

  void advance(const models::Signals& signals) {
    const Trainer::Step now = trainer.step();
    const std::int64_t done = trainer.position();
    const bool isLast = done == options.steps;
    if (!now.nonFinite.empty())
      progress.say(fmt::format("step {:>6}  no update: {}", done, now.nonFinite));
    else if (models::isEvery(done, options.logEvery) || isLast)
      progress.show(done, now, data.waited());
    if (validation && (models::isEvery(done, options.evaluateEvery) || isLast)) {
      progress.show(done, trainer.evaluate(*validation, validation->size()));
      progress.restart(done, data.waited());
    }
    if (models::isEvery(done, options.checkpointEvery) || isLast || signals.stop()) {
      const fs::path path = trainer.save();
      trainer.saveAverages(fs::path(options.out) / "weights.safetensors");
      progress.say(fmt::format("step {:>6}  {}", done, path.string()));
      progress.restart(done, data.waited());
    }
  }

  const TrainOptions& options;
  at::Device device;
  Progress progress;
  TrainingData data;
  Trainer trainer;
  std::optional<ValidationData> validation;
};

} // namespace

void train(const TrainOptions& options) {
  fs::create_directories(options.out);
  if (options.profile > 0) { // of steps of their own, so that the run is as without
    Run apart(options);
    apart.profile();
  }
  Run run(options);
  run.begin();
  run.goOn();
  if (options.kiln != "off")
    std::cout << '\n' << kiln::report();
  if (!options.recordShapes.empty())
    kiln::recordShapes(options.recordShapes);
}

} // namespace kiln::alphafold
