// See Options.h.
#include "models/alphafold/train/Options.h"

#include "models/common/Fail.h"
#include "models/common/Flags.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace kiln::alphafold {

using models::fail;

void TrainOptions::settle() {
  model = ModelConfig::named(size);
  models::inside("dropout", dropout, 0, 1);
  model.msaDropout *= dropout;
  model.pairDropout *= dropout;
  model.structureDropout *= dropout;
}

void TrainOptions::check() const {
  using namespace models;
  atLeast("crop", crop, 0);
  if (crop > 0 && crop < 4)
    fail(ErrorKind::input, "--crop={}: at least 4 residues are needed; 0 is the stage's", crop);
  atLeast("msa-clusters", clusters, 0);
  atLeast("extra-msa", extra, -1);
  if (extra == 0)
    fail(ErrorKind::input, "--extra-msa=0: at least 1 row is needed; -1 is the stage's");
  atLeast("templates", templates, -1);
  atLeast("recycling", passes, 1);
  atLeast("batch", batch, 1);
  atLeast("workers", workers, 1);
  atLeast("steps", steps, 1);
  atLeast("warmup", warmup, 0);
  atLeast("decay-after", decayAfter, 1);
  atLeast("checkpoint-every", checkpointEvery, 0);
  atLeast("keep", keep, 1);
  atLeast("log-every", logEvery, 1);
  atLeast("evaluate-every", evaluateEvery, 0);
  atLeast("evaluate-proteins", evaluateProteins, 1);
  atLeast("bench", bench, 0);
  atLeast("profile", profile, 0);
  inside("learning-rate", learningRate, 0, 1e3);
  inside("decay", decay, 0, 1);
  inside("beta1", beta1, 0, 0.999999);
  inside("beta2", beta2, 0, 0.999999);
  inside("eps", eps, 0, 1);
  inside("clip", clip, 0, 1e30);
  inside("ema", ema, 0, 0.9999999);
  oneOf("stage", stage, {"initial", "finetune"});
  oneOf("precision", precision, {"fp32", "tf32", "bf16"});
  oneOf("kiln", kiln, {"off", "on", "verify", "record"});
  recomputedBlocks(recompute);
  if (graphs && kiln == "verify")
    fail(ErrorKind::input, "--graphs and --kiln=verify: results are compared on the host; take "
                           "--kiln=on, or leave --graphs out");
  if (!recordShapes.empty() && kiln == "off")
    fail(ErrorKind::input,
         "--record-shapes={} and --kiln=off: no kernel of Kiln's is asked for; take --kiln=on, or "
         "--kiln=record, with which LibTorch computes",
         recordShapes);
  if (!resume.empty() && !weights.empty())
    fail(ErrorKind::input, "--resume={} and --weights={}: a run begins with one of them", resume,
         weights);
  ranks.check();
  model.check();
}

std::int64_t recomputedBlocks(const std::string& text) {
  if (text == "none" || text == "blocks")
    return text == "blocks" ? 1 : 0;
  constexpr std::string_view prefix = "every=";
  std::int64_t every = 0;
  const char* const end = text.data() + text.size();
  if (text.starts_with(prefix)) {
    const auto [stop, error] = std::from_chars(text.data() + prefix.size(), end, every);
    every = error == std::errc() && stop == end ? every : 0;
  }
  if (every < 1)
    fail(
        ErrorKind::input,
        "--recompute={}: allowed are none, blocks, and every=N with a number of blocks, 1 at least",
        text);
  return every;
}

double learningRate(const TrainOptions& options, std::int64_t step) {
  const double rise =
      std::min(1.0, double(step + 1) / double(std::max<std::int64_t>(options.warmup, 1)));
  const std::int64_t falls = step / options.decayAfter;
  return options.learningRate * rise * std::pow(options.decay, double(falls));
}

} // namespace kiln::alphafold
