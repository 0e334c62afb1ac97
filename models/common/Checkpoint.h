// Checkpoints of a run: a folder of step-NNNNNN.safetensors, each with weights, the optimizer's
// state, random numbers and what else a run adds; each there whole or not at all.
#pragma once

#include "models/common/Optimizer.h"
#include "models/common/Parameters.h"

namespace kiln::models {

class Checkpoint {
 public:
  /// Throws Error(missing, corrupt).
  explicit Checkpoint(const std::filesystem::path& path);

  std::int64_t step() const { return stepsDone; }
  const Safetensors& tensors() const { return file; }
  /// The options that the run was given, as text.
  const std::string& options() const { return file.text("options"); }

  void load(torch::nn::Module& model) const { readParameters(file, model); }
  /// The model's parameters, too.
  void load(Updater& updater) const { updater.restore(file); }
  /// The generators' states, of the CPU and of `device`.
  void loadRandom(at::Device device) const;

 private:
  Safetensors file;
  std::int64_t stepsDone;
};

/// What every run keeps: weights, the optimizer's state, generators. All ranks must ask where the
/// optimizer is divided.
std::vector<NamedTensor> stateOf(Updater& updater, at::Device device);

/// Writes `folder`/step-NNNNNN.safetensors and removes all but the newest `keep` of those up to it.
std::filesystem::path writeCheckpoint(const std::filesystem::path& folder, std::int64_t step,
                                      std::int64_t keep, const std::vector<NamedTensor>& tensors,
                                      Metadata metadata);

/// The newest checkpoint of a folder. Throws Error(missing).
std::filesystem::path latestCheckpoint(const std::filesystem::path& folder);
/// What --resume names: a file; "latest" or nothing: the newest of the folder; "auto": the newest,
/// or an empty path if there is none. Throws Error(missing).
std::filesystem::path checkpointOf(const std::string& resume, const std::filesystem::path& folder);
/// Where a run that writes into the folder starts: from what `resume` names, or, if that is empty,
/// from nothing, an empty path. Throws Error(input) if the folder holds checkpoints then, among
/// which the new run's could not be told apart.
std::filesystem::path startOf(const std::string& resume, const std::filesystem::path& folder);

} // namespace kiln::models
