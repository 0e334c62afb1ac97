// Sizes of models, and checks of what a run is told.
#include "models/lm/Config.h"

#include "models/common/Fail.h"
#include "models/common/Flags.h"

#include <algorithm>

namespace kiln::lm {

namespace {

struct Size {
  const char* name;
  std::int64_t context, width, hidden, layers, heads;
};
// But for tiny those of CS336's second assignment.
constexpr Size sizes[] = {
    {"tiny", 64, 64, 192, 2, 4},          {"small", 1024, 768, 3072, 12, 12},
    {"medium", 1024, 1024, 4096, 24, 16}, {"large", 1024, 1280, 5120, 36, 20},
    {"xl", 1024, 1600, 6400, 48, 25},     {"2.7b", 1024, 2560, 10240, 32, 32}};

} // namespace

ModelConfig ModelConfig::named(const std::string& size) {
  const auto* found = std::ranges::find_if(sizes, [&](const Size& s) { return s.name == size; });
  if (found == std::end(sizes))
    fail(ErrorKind::input, "--model={}: allowed are tiny, small, medium, large, xl and 2.7b", size);
  ModelConfig config;
  config.context = found->context;
  config.width = found->width;
  config.hidden = found->hidden;
  config.layers = found->layers;
  config.heads = found->heads;
  return config;
}

void ModelConfig::check() const {
  atLeast("vocabulary", vocabulary, 2);
  atLeast("context", context, 1);
  atLeast("width", width, 2);
  atLeast("hidden", hidden, 1);
  atLeast("layers", layers, 1);
  atLeast("heads", heads, 1);
  if (width % heads != 0)
    fail(ErrorKind::input, "--width={} does not divide into --heads={}: {} would be left over",
         width, heads, width % heads);
  if (width / heads % 2 != 0)
    fail(
        ErrorKind::input,
        "--width={} and --heads={} make heads of {} elements: rotary positions need an even number",
        width, heads, width / heads);
}

std::int64_t ModelConfig::parameters() const {
  return layers * (4 * width * width + 3 * width * hidden + 2 * width) + width +
         2 * vocabulary * width;
}

double ModelConfig::flopsPerToken() const {
  const double weights = double(parameters() - vocabulary * width);
  return 6 * weights + 12 * double(layers) * double(width) * double(context) / 2;
}

bool Options::isSharded() const {
  const bool isFaster = kiln != "off" && ranks.reduce == "overlapped" && accumulate == 1;
  return shard == "optimizer" || (shard == "auto" && isFaster);
}

void Options::settle() {
  const ModelConfig named = ModelConfig::named(size);
  for (auto member : {&ModelConfig::context, &ModelConfig::width, &ModelConfig::hidden,
                      &ModelConfig::layers, &ModelConfig::heads})
    if (model.*member == 0)
      model.*member = named.*member;
  oneOf("precision", precision, {"fp32", "tf32", "bf16"});
  oneOf("kiln", kiln, {"off", "on", "modules", "verify"});
  if (graphs && accumulate > 1)
    fail(ErrorKind::input,
         "--graphs and --accumulate={}: a graph is a step of one batch; leave one of the two out",
         accumulate);
  if (graphs && kiln != "on" && kiln != "modules")
    fail(ErrorKind::input,
         "--graphs and --kiln={}: {}; take --kiln=on or --kiln=modules, or leave --graphs out",
         kiln,
         kiln == "off" ? "LibTorch's AdamW computes each step's size on the host"
                       : "results are compared on the host");
  if (!recordShapes.empty() && kiln == "off")
    fail(ErrorKind::input,
         "--record-shapes={} and --kiln=off: no kernel of Kiln's is asked for; take --kiln=on or "
         "--kiln=modules",
         recordShapes);
  ranks.check();
  oneOf("shard", shard, {"auto", "none", "optimizer"});
  if (shard == "optimizer" && kiln == "off")
    fail(ErrorKind::input,
         "--shard=optimizer and --kiln=off: the AdamW that is divided among ranks is Kiln's; take "
         "--kiln=on or --kiln=modules");
  atLeast("steps", steps, 1);
  atLeast("batch", batch, 1);
  atLeast("accumulate", accumulate, 1);
  atLeast("warmup", warmup, 0);
  inside("learning-rate", learningRate, 0, 1e3);
  inside("min-learning-rate", minLearningRate, 0, learningRate);
  inside("weight-decay", weightDecay, 0, 1e3);
  inside("beta1", beta1, 0, 0.999999);
  inside("beta2", beta2, 0, 0.999999);
  inside("clip", clip, 0, 1e30);
  inside("held-out", heldOut, 0, 0.5);
  atLeast("evaluate-every", evaluateEvery, 0);
  atLeast("evaluate-batches", evaluateBatches, 1);
  atLeast("checkpoint-every", checkpointEvery, 0);
  atLeast("keep", keep, 1);
  atLeast("log-every", logEvery, 1);
  atLeast("sample", sample, 0);
  atLeast("top-k", topK, 0);
  atLeast("bench", bench, 0);
  atLeast("profile", profile, 0);
  inside("temperature", temperature, 0, 100);
  inside("vocabulary", double(vocabulary), 256, 1 << 20);
}

} // namespace kiln::lm
