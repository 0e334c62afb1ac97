// See Run.h.
#include "models/alphafold/train/Run.h"

#include "kiln/files.h"
#include "kiln/torch.h"
#include "models/alphafold/train/Data.h"
#include "models/alphafold/train/Progress.h"
#include "models/alphafold/train/Trainer.h"
#include "models/common/Fail.h"
#include "models/common/Folder.h"
#include "models/common/Program.h"
#include "models/common/Signals.h"

#include <iostream>

namespace kiln::alphafold {

namespace fs = std::filesystem;

namespace {

/// What a run goes through, step by step, with evaluations and checkpoints between.
class Run {
 public:
  Run(const TrainOptions& options, const std::shared_ptr<dist::Group>& group)
      : options(options), group(group), progress(options, *group),
        data(options, open(options.data, options.cache, "features"), group->place()),
        trainer(options, data, group) {
    if (!options.validation.empty() && options.evaluateEvery > 0)
      validation.emplace(options, open(options.validation, {}, "validation"));
  }

  void begin() {
    if (const fs::path from = models::startOfFirst(*group, options.resume, options.out);
        !from.empty())
      trainer.resume(from);
    else if (!options.weights.empty())
      trainer.beginWith(options.weights);
    if (group->rank() == 0)
      writeFile(fs::path(options.out) / "config.json", options.text() + '\n');
    const std::int64_t done = trainer.position();
    progress.say(fmt::format("{:.2f} M parameters, {} chains to train on, on {}{}{}",
                             double(trainer.network()->parameterCount()) / 1e6,
                             data.dataset().entries().size(), group->device().str(),
                             group->size() > 1 ? fmt::format(", {} ranks", group->size()) : "",
                             done > 0 ? fmt::format(", from step {}", done) : ""));
    progress.restart(done, data.waited());
  }

  void profile() {
    models::profileSteps([&] { trainer.step(); }, group->device(), options.profile);
  }

  void goOn() {
    const models::Signals signals;
    while (trainer.position() < options.steps && advance(signals)) {
    }
  }

 private:
  Dataset open(const fs::path& folder, const fs::path& cache, const char* name) {
    return models::firstThenOthers(*group, [&] {
      return openDataset(options, folder, cache.empty() ? fs::path(options.out) / name : cache,
                         [&](const std::string& text) { progress.say(text); });
    });
  }

  /// Whether the run goes on.
  bool advance(const models::Signals& signals) {
    const Trainer::Step now = trainer.step();
    const std::int64_t done = trainer.position();
    const bool isLast = done == options.steps, ends = group->agreed(signals.stop()) || isLast;
    if (!now.nonFinite.empty())
      progress.say(fmt::format("step {:>6}  no update: {}", done, now.nonFinite));
    else if (models::isEvery(done, options.logEvery) || isLast)
      progress.show(done, now, data.waited());
    if (validation && (models::isEvery(done, options.evaluateEvery) || isLast)) {
      progress.show(done, trainer.evaluate(*validation, validation->size()));
      progress.restart(done, data.waited());
    }
    if (models::isEvery(done, options.checkpointEvery) || ends) {
      if (group->rank() == 0)
        save(done);
      progress.restart(done, data.waited());
    }
    return !ends;
  }

  void save(std::int64_t done) {
    const fs::path path = trainer.save();
    trainer.saveAverages(fs::path(options.out) / "weights.safetensors");
    progress.say(fmt::format("step {:>6}  {}", done, path.string()));
  }

  const TrainOptions& options;
  std::shared_ptr<dist::Group> group;
  Progress progress;
  TrainingData data;
  Trainer trainer;
  std::optional<ValidationData> validation;
};

} // namespace

void train(const TrainOptions& options) {
  models::makeFolder(options.out);
  const auto group = models::startGroup(options.ranks, options.device, options.kiln);
  if (options.profile > 0) { // of steps of their own, so that the run is as without
    Run apart(options, group);
    apart.profile();
  }
  Run run(options, group);
  run.begin();
  models::inGroup(*group, [&] { run.goOn(); });
  if (options.kiln != "off" && group->rank() == 0)
    std::cout << '\n' << kiln::report();
  if (!options.recordShapes.empty() && group->rank() == 0)
    kiln::recordShapes(options.recordShapes);
}

} // namespace kiln::alphafold
