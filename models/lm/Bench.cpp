// Times training steps.
#include "kiln/torch.h"
#include "models/lm/Run.h"

#include "models/common/Device.h"
#include "models/common/Program.h"
#include "models/lm/Trainer.h"

#include <nlohmann/json.hpp>

namespace kiln::lm {

namespace {

using Clock = std::chrono::steady_clock;

/// A tokenizer of so many tokens, whatever they stand for.
Tokenizer anyTokenizer(std::int64_t vocabulary) {
  std::vector<Tokenizer::Pair> merges;
  for (std::int64_t i = 0; i < vocabulary - 256; ++i)
    merges.emplace_back(Token(i / 256), Token(i % 256));
  return Tokenizer(merges);
}

} // namespace

std::string bench(const Options& options) {
  constexpr int warmup = 5;
  const auto group = startGroup(options.ranks, options.device, options.kiln);
  const at::Device device = group->device();
  const Data data(at::randint(options.vocabulary, {options.model.context * 1000}, at::kInt));
  Trainer trainer(options, data, anyTokenizer(options.vocabulary), group);
  trainer.prepare();
  for (int i = 0; i < warmup; ++i)
    trainer.step();
  synchronize(device);
  if (!options.graphs) // whose memory was taken when they were captured
    resetPeakMemory(device);
  const auto begin = Clock::now();
  at::Tensor loss;
  for (std::int64_t i = 0; i < options.bench; ++i)
    loss = trainer.step().loss;
  synchronize(device);
  const double seconds =
      std::chrono::duration<double>(Clock::now() - begin).count() / double(options.bench);

  const double peakBytes = peakMemory(device);
  if (options.profile > 0)
    profileSteps([&] { trainer.step(); }, device, options.profile);
  if (group->rank() > 0)
    return "";
  if (!options.recordShapes.empty())
    kiln::recordShapes(options.recordShapes);

  const ModelConfig& model = trainer.settings().model;
  const double tokens =
      double(group->size() * options.batch * options.accumulate * model.context) / seconds;
  const double peak = options.peakTflops > 0 ? options.peakTflops : 800;
  return nlohmann::ordered_json{
             {"source", "LibTorch"},
             {"kiln", options.kiln},
             {"model", options.size},
             {"parameters", model.parameters()},
             {"ranks", group->size()},
             {"shard", group->size() > 1 && options.isSharded() ? "optimizer" : "none"},
             {"batch", options.batch},
             {"accumulate", options.accumulate},
             {"context", model.context},
             {"vocabulary", model.vocabulary},
             {"precision", options.precision},
             {"recompute", options.recompute},
             {"graphs", options.graphs},
             {"device", device.str()},
             {"steps", options.bench},
             {"step_ms", seconds * 1e3},
             {"tokens_per_second", tokens},
             {"peak_tflops", peak},
             {"mfu", tokens / group->size() * model.flopsPerToken() / (peak * 1e12)},
             {"peak_memory_gib", peakBytes / 0x1p30},
             {"loss", loss.item<double>()}}
             .dump() +
         '\n';
}

} // namespace kiln::lm
