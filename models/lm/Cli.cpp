// The flags of train_lm, each with its member of Options and what it means; the same names stand in
// JSON files for --config.
#include "models/lm/Config.h"

#include "models/common/Fail.h"
#include "models/common/Flags.h"

#include <nlohmann/json.hpp>

namespace kiln::lm {

namespace {

using nlohmann::json;

std::vector<Flag> flagsOf(Options& o) {
  const char *model = "Model", *data = "Data", *training = "Training", *numbers = "Numbers",
             *run = "Run", *other = "Instead of training";
  std::vector<Flag> flags = {
      {model, "model", &o.size,
       "size: tiny, small (129 M), medium (423 M), large (969 M), xl, 2.7b"},
      {model, "context", &o.model.context, "tokens that a prediction may look at; 0: of the size"},
      {model, "width", &o.model.width, "of the residual stream; 0: of the size"},
      {model, "hidden", &o.model.hidden, "width of the feed-forward part; 0: of the size"},
      {model, "layers", &o.model.layers, "0: of the size"},
      {model, "heads", &o.model.heads, "0: of the size"},
      {data, "data", &o.data, "a text file"},
      {data, "tokenizer", &o.tokenizer,
       "a file made by --train-tokenizer; without one tokens are bytes"},
      {data, "held-out", &o.heldOut, "share of the tokens, at the end, to evaluate on; 0: none"},
      {training, "steps", &o.steps, "of the whole run"},
      {training, "batch", &o.batch, "sequences at a time"},
      {training, "accumulate", &o.accumulate, "batches a step"},
      {training, "learning-rate", &o.learningRate, "at the end of the warm-up"},
      {training, "min-learning-rate", &o.minLearningRate, "at the end of the cosine"},
      {training, "warmup", &o.warmup, "steps"},
      {training, "weight-decay", &o.weightDecay, "of matrices; gains of norms are not decayed"},
      {training, "beta1", &o.beta1, "AdamW's"},
      {training, "beta2", &o.beta2, "AdamW's"},
      {training, "clip", &o.clip, "largest global norm of the gradient; 0: any"},
      {training, "seed", &o.seed, "of the weights, the order of the data, and samples"},
      {numbers, "device", &o.device, "cpu, cuda or cuda:N; empty: a GPU if there is one"},
      {numbers, "precision", &o.precision, "fp32, tf32, or bf16 (autocast)"},
      {numbers, "kiln", &o.kiln,
       "on: Kiln's kernels under LibTorch's ops, and its AdamW; modules: Kiln's fused modules too, "
       "with bf16 weights written by AdamW; verify: on, compared with ATen's; off"},
      {numbers, "recompute", &o.recompute, "blocks again in the backward, to save memory"},
      {numbers, "deterministic", &o.deterministic, "only algorithms that repeat bit by bit"},
      {numbers, "graphs", &o.graphs,
       "replays each step as one CUDA graph, for less work of the host; with --kiln=on or modules"},
      {run, "out", &o.out, "folder for checkpoints, log.jsonl and config.json"},
      {run, "resume", &o.resume,
       "a checkpoint, 'latest' of --out, or 'auto': the latest if there is one"},
      {run, "evaluate-every", &o.evaluateEvery, "steps; 0: never"},
      {run, "evaluate-batches", &o.evaluateBatches, "batches of an evaluation"},
      {run, "checkpoint-every", &o.checkpointEvery, "steps; 0: only at the end"},
      {run, "keep", &o.keep, "checkpoints"},
      {run, "log-every", &o.logEvery, "steps"},
      {run, "peak-tflops", &o.peakTflops, "of the device, for MFU; 0: 800 on a GPU, none on a CPU"},
      {other, "sample", &o.sample, "writes as many tokens by a checkpoint"},
      {other, "prompt", &o.prompt, "what a sample continues; empty: a line break"},
      {other, "temperature", &o.temperature, "of a sample; 0: always the likeliest token"},
      {other, "top-k", &o.topK, "likeliest tokens that a sample chooses from; 0: all"},
      {other, "train-tokenizer", &o.trainTokenizer, "makes byte pairs of --data into this file"},
      {other, "vocabulary", &o.vocabulary, "tokens of --train-tokenizer and of --bench"},
      {other, "bench", &o.bench, "times as many steps on random tokens and prints a line of JSON"},
      {other, "profile", &o.profile,
       "with --bench: as many rows of tables of ops and kernels, too"},
      {other, "record-shapes", &o.recordShapes,
       "a workload file for kernel-compile tune, written at the end: the kernels that were asked "
       "for "
       "and that no store has measured"},
  };
  const std::vector<Flag> ranks = o.ranks.flags();
  flags.insert(flags.end(), ranks.begin(), ranks.end());
  flags.push_back({ranks.front().group, "shard", &o.shard,
                   "optimizer: each rank keeps and updates its part of AdamW's state, and of fp32 "
                   "weights beside those in bf16 of --kiln=modules; none; or auto: the first for "
                   "Kiln's AdamW, --reduce=overlapped and --accumulate=1, where it is faster"});
  return flags;
}

constexpr std::pair<const char*, std::int64_t ModelConfig::*> modelMembers[] = {
    {"vocabulary", &ModelConfig::vocabulary}, {"context", &ModelConfig::context},
    {"width", &ModelConfig::width},           {"hidden", &ModelConfig::hidden},
    {"layers", &ModelConfig::layers},         {"heads", &ModelConfig::heads}};

const char* examples = R"(Examples:
  train_lm --data=text.txt --steps=500
      a tiny model of bytes; checkpoints, log and options are kept in run/
  train_lm --data=text.txt --train-tokenizer=bpe.json --vocabulary=4096
  train_lm --data=text.txt --tokenizer=bpe.json --model=small --batch=16 --precision=bf16 --kiln=on
  train_lm --config=run/config.json --steps=2000 --resume=latest
      goes on where the newest checkpoint stands, bit by bit as if it had never stopped
  train_lm --data=text.txt --nproc=2 --batch=4
      what --batch=8 of one process does, by two
  train_lm --sample=200 --prompt="ROMEO:"
  train_lm --bench=20 --model=large --batch=8 --vocabulary=10000 --precision=bf16 \
           --kiln=modules
)";

} // namespace

std::string ModelConfig::text() const {
  json object;
  for (auto [name, member] : modelMembers)
    object[name] = this->*member;
  return object.dump();
}

ModelConfig ModelConfig::parse(const std::string& text) try {
  const json object = json::parse(text);
  ModelConfig config;
  for (auto [name, member] : modelMembers)
    object.at(name).get_to(config.*member);
  return config;
} catch (const json::exception& error) {
  fail(ErrorKind::corrupt, "'{}' is no model: {}", text, error.what());
}

std::string Options::text() const {
  Options copy = *this;
  return textOf(flagsOf(copy));
}

std::optional<Options> parse(int argc, const char* const* argv, int& status) {
  Options options;
  const Command command = {
      "train_lm",
      "Trains a transformer language model on a text file, evaluates it and lets it write.",
      examples};
  if (!readFlags(command, flagsOf(options), argc, argv, status))
    return {};
  options.settle();
  if (options.data.empty() && options.bench == 0 && options.sample == 0)
    fail(ErrorKind::input, "--data=FILE, a text to train on, is needed; --help shows examples");
  return options;
}

} // namespace kiln::lm
