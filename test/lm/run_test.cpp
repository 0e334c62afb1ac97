// The model beside plain formulas, and runs on the CPU: the loss falls, Kiln's kernels change
// nothing but roundings, and a resumed run is the uninterrupted one bit by bit.
#include "kiln/torch.h"
#include "models/common/Device.h"
#include "models/common/Precision.h"
#include "models/common/Recompute.h"
#include "models/lm/Sample.h"
#include "test/lm/Helpers.h"
#include "test/lm/Runs.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <torch/torch.h>

namespace kiln::lm {
namespace {

using at::Tensor;

void expectSameParameters(Trainer& one, Trainer& other) {
  const auto theirs = other.transformer()->named_parameters();
  for (const auto& parameter : one.transformer()->named_parameters())
    EXPECT_TRUE(at::equal(parameter.value(), theirs[parameter.key()])) << parameter.key();
}

ModelConfig someModel() {
  ModelConfig config = ModelConfig::named("tiny");
  config.vocabulary = 50;
  config.context = 12;
  config.width = 16;
  config.hidden = 24;
  return config;
}

/// RMSNorm, rotary positions, causal attention and SwiGLU written out with matrices.
Tensor logitsByFormula(const Transformer& model, const Tensor& tokens) {
  const auto weights = model->named_parameters();
  const ModelConfig& config = model->config;
  const std::int64_t size = config.width / config.heads, length = tokens.size(0);
  auto w = [&](const std::string& name) { return weights[name + ".weight"].to(at::kDouble); };
  auto norm = [](const Tensor& x, const Tensor& gain) {
    return x / (x.square().mean(-1, true) + 1e-5).sqrt() * gain;
  };
  auto turned = [&](const Tensor& x) { // [length, size]
    Tensor y = x.clone();
    for (std::int64_t p = 0; p < length; ++p)
      for (std::int64_t i = 0; i < size / 2; ++i) {
        const double angle = double(p) * std::pow(10000.0, -2.0 * double(i) / double(size));
        const Tensor a = x[p][2 * i], b = x[p][2 * i + 1];
        y[p][2 * i] = a * std::cos(angle) - b * std::sin(angle);
        y[p][2 * i + 1] = a * std::sin(angle) + b * std::cos(angle);
      }
    return y;
  };
  const Tensor mask = at::ones({length, length}, at::kBool).tril().logical_not();
  Tensor x = w("token_embeddings").index_select(0, tokens);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string in = "layers." + std::to_string(layer) + ".";
    const Tensor n = norm(x, w(in + "ln1"));
    std::vector<Tensor> heads;
    for (std::int64_t h = 0; h < config.heads; ++h) {
      auto part = [&](const char* name) {
        return n.mm(w(in + "attn." + name + "_proj").t()).slice(1, h * size, (h + 1) * size);
      };
      const Tensor scores = turned(part("q")).mm(turned(part("k")).t()) / std::sqrt(double(size));
      heads.push_back(scores.masked_fill(mask, -INFINITY).softmax(-1).mm(part("v")));
    }
    x = x + at::cat(heads, 1).mm(w(in + "attn.output_proj").t());
    const Tensor m = norm(x, w(in + "ln2"));
    const Tensor gate = m.mm(w(in + "ffn.w1").t()), up = m.mm(w(in + "ffn.w3").t());
    x = x + (gate * gate.sigmoid() * up).mm(w(in + "ffn.w2").t());
  }
  return norm(x, w("ln_final")).mm(w("lm_head").t());
}

TEST(Lm, TheModelIsItsFormula) {
  at::manual_seed(1);
  const torch::NoGradGuard constant;
  Transformer model(someModel());
  std::int64_t elements = 0;
  for (const Tensor& parameter : model->parameters())
    elements += parameter.numel();
  EXPECT_EQ(elements, someModel().parameters());
  const Tensor tokens = at::randint(50, {12}, at::kLong);
  const Tensor logits = model(tokens.unsqueeze(0))[0].to(at::kDouble);
  EXPECT_TRUE(at::allclose(logits, logitsByFormula(model, tokens), 1e-4, 1e-5));
  // What comes later is not looked at.
  EXPECT_TRUE(at::allclose(model(tokens.slice(0, 0, 5).unsqueeze(0))[0].to(at::kDouble),
                           logits.slice(0, 0, 5), 1e-4, 1e-5));
  EXPECT_SAYS(errorOf([&] { model(at::zeros({1, 13}, at::kLong)); }), "13 tokens");
}

TEST(Lm, RecomputingChangesNothing) {
  auto gradients = [](bool recompute, const char* precision) {
    at::manual_seed(2);
    Transformer model(someModel());
    model->recompute = recompute;
    const Tensor tokens = at::randint(50, {2, 12}, at::kLong);
    Tensor loss;
    {
      const Autocast autocast(at::kCPU, Autocast::of(precision));
      loss = crossEntropy(model(tokens).flatten(0, 1), tokens.flatten());
    }
    loss.backward();
    std::vector<Tensor> all = {loss.detach()};
    for (const Tensor& parameter : model->parameters())
      all.push_back(parameter.grad());
    return all;
  };
  for (const char* precision : {"fp32", "bf16"}) {
    const auto kept = gradients(false, precision), again = gradients(true, precision);
    for (std::size_t i = 0; i < kept.size(); ++i)
      EXPECT_TRUE(at::equal(kept[i], again[i])) << precision << ", tensor " << i;
  }
}

TEST(Lm, RecomputingDrawsTheSameRandomNumbers) {
  auto gradient = [](bool recompute) {
    at::manual_seed(3);
    const Tensor x = at::ones({1000}).requires_grad_();
    const Step step = [](const Tensors& in) { return Tensors{at::dropout(in[0], 0.5, true) * 3}; };
    const Tensor y = (recompute ? recomputed(step, {x}, {}) : step({x}))[0];
    const Tensor later = at::rand({3}); // the backward must not disturb what is drawn behind it
    y.sum().backward();
    return at::cat({x.grad(), y.detach(), later, at::rand({3})});
  };
  EXPECT_TRUE(at::equal(gradient(true), gradient(false)));
}

TEST(Lm, ClippingIsTorchs) {
  at::manual_seed(4);
  torch::nn::Linear ours(5, 7), theirs(5, 7);
  Options options;
  options.clip = 0.3;
  options.weightDecay = 0;
  Updater updater(*ours, updateOptions(options));
  torch::optim::AdamW optimizer(
      theirs->parameters(),
      torch::optim::AdamWOptions(0.1).betas({options.beta1, options.beta2}).weight_decay(0));
  {
    const torch::NoGradGuard constant;
    theirs->weight.copy_(ours->weight);
    theirs->bias.copy_(ours->bias);
  }
  for (int step = 0; step < 3; ++step) {
    const Tensor x = at::randn({9, 5});
    ours(x).square().sum().backward();
    optimizer.zero_grad();
    theirs(x).square().sum().backward();
    const double norm = torch::nn::utils::clip_grad_norm_(theirs->parameters(), options.clip);
    optimizer.step();
    EXPECT_NEAR(updater.step(0.1).item<double>(), norm, 1e-4 * norm);
    EXPECT_TRUE(at::allclose(ours->weight, theirs->weight, 1e-5, 1e-6)) << step;
    EXPECT_TRUE(at::allclose(ours->bias, theirs->bias, 1e-5, 1e-6)) << step;
  }
}

TEST(Lm, TheLossFallsOnShakespeare) {
  const Folder folder;
  Options options = smallOptions(folder.string());
  options.model = {};
  options.settle(); // the tiny size
  options.steps = 150;
  options.batch = 8;
  options.learningRate = 5e-3;
  Trainer trainer = trainerOf(options);
  const double before = trainer.evaluate();
  EXPECT_NEAR(before, 5.8, 0.3); // log 256 and what random weights add
  lossesOf(trainer, options.steps);
  const double after = trainer.evaluate();
  EXPECT_LT(after, 2.4); // letters by their frequency alone come to 3.3
  RecordProperty("held_out_loss", std::to_string(after));
}

TEST(Lm, KilnChangesRoundingsOnly) {
  const Folder folder;
  Options options = smallOptions(folder.string());
  options.steps = 200;
  const auto expected = lossesWith(options, "off");
  expectClose(lossesWith(options, "on"), expected, 2e-3);
  const std::string report = kiln::report();
  for (const char* op : {"_fused_rms_norm", "_fused_rms_norm_backward", "silu", "silu_backward",
                         "_log_softmax", "_log_softmax_backward_data"})
    EXPECT_SAYS(report, std::string(op) + " ");
  EXPECT_SAYS(report, "kernels over lists of tensors"); // AdamW's steps
  // Of 218 log-softmaxes, evaluations among them, all but the one that asked for the kernel.
  EXPECT_SAYS(report, "217  the cost model's choice");
}

void expectResumed(const Options& options) {
  Trainer whole = trainerOf(options);
  whole.prepare();
  lossesOf(whole, 7);
  const auto path = whole.save();
  const auto expected = lossesOf(whole, 9);
  Trainer resumed = trainerOf(options);
  lossesOf(resumed, 2); // another state, which must go
  resumed.resume(path);
  EXPECT_EQ(resumed.position(), 7);
  EXPECT_EQ(lossesOf(resumed, 9), expected);
  expectSameParameters(whole, resumed);
  EXPECT_NE(whole.save(), path);
  EXPECT_FALSE(std::filesystem::exists(path)); // one is kept
  EXPECT_EQ(latestCheckpoint(options.out).filename(), "step-000016.safetensors");
}

TEST(Lm, AResumedRunIsTheUninterruptedOne) {
  const Folder folder;
  Options options = smallOptions(folder.string());
  options.accumulate = 2;
  options.keep = 1;
  expectResumed(options);

  options.model.width = 32;
  Trainer other = trainerOf(options);
  EXPECT_SAYS(errorOf([&] { other.resume(latestCheckpoint(folder.string())); }), "\"width\":32");
}

TEST(Lm, ARunDoesNotLoseItsCheckpointsAmongThoseOfAnother) {
  const Folder folder;
  Options options = smallOptions(folder.string());
  options.keep = 1;
  EXPECT_TRUE(models::startOf("", folder.string()).empty());
  Trainer first = trainerOf(options);
  lossesOf(first, 3);
  const auto early = first.save();
  std::filesystem::copy(early, folder / "early.safetensors");
  lossesOf(first, 6);
  const auto late = first.save();
  EXPECT_SAYS(errorOf([&] { models::startOf("", folder.string()); }),
              "holds checkpoints of a run, up to step-000009.safetensors");
  EXPECT_EQ(models::startOf("latest", folder.string()), late);
  EXPECT_EQ(models::startOf("auto", folder.string()), late);

  Trainer rewound = trainerOf(options);
  rewound.resume(folder / "early.safetensors");
  lossesOf(rewound, 2);
  const auto own = rewound.save();
  EXPECT_EQ(own.filename(), "step-000005.safetensors");
  EXPECT_TRUE(std::filesystem::exists(own)); // which is older than what lies there
  EXPECT_TRUE(std::filesystem::exists(late));
}

TEST(Lm, ARunOnKilnsKernelsIsResumedToo) {
  for (const char* kiln : {"on", "modules"}) {
    const Folder folder;
    Options options = smallOptions(folder.string());
    options.keep = 1;
    options.kiln = kiln;
    options.precision = options.kiln == "on" ? "fp32" : "bf16";
    const KilnOnCpu enabled(options);
    expectResumed(options);
  }
}

TEST(Lm, ACheckpointHoldsItsNamesAndIsChecked) {
  const Folder folder;
  const Options options = smallOptions(folder.string());
  Trainer trainer = trainerOf(options);
  trainer.step();
  const auto path = trainer.save();
  const Safetensors file(path);
  for (const char* name :
       {"token_embeddings.weight", "layers.0.attn.q_proj.weight", "layers.0.attn.k_proj.weight",
        "layers.0.attn.v_proj.weight", "layers.0.attn.output_proj.weight", "layers.0.ffn.w1.weight",
        "layers.0.ffn.w2.weight", "layers.0.ffn.w3.weight", "layers.0.ln1.weight",
        "layers.0.ln2.weight", "ln_final.weight", "lm_head.weight",
        "optimizer.exp_avg.lm_head.weight", "optimizer.exp_avg_sq.ln_final.weight",
        "optimizer.step.lm_head.weight", "random.cpu"})
    EXPECT_TRUE(file.contains(name)) << name;
  EXPECT_EQ(file.names().size(), 12U * 4 + 1);
  Metadata texts = file.metadata();
  EXPECT_EQ(texts.at("step"), "1");
  texts["step"] = "many";
  writeSafetensors(folder / "bad.safetensors", {}, texts);
  EXPECT_SAYS(errorOf([&] { Checkpoint bad(folder / "bad.safetensors"); }), "'many', no count");
  texts["step"] = "1";
  texts["model"] = R"({"width": "wide"})";
  writeSafetensors(folder / "bad.safetensors", {}, texts);
  EXPECT_SAYS(errorOf([&] { Checkpoint bad(folder / "bad.safetensors"); }), "is no model");
  EXPECT_SAYS(errorOf([&] { latestCheckpoint(folder / "none"); }), "holds no checkpoint");
}

TEST(Lm, SamplesRepeatAndTheLikeliestTokenIsDrawn) {
  at::manual_seed(5);
  ModelConfig config = someModel();
  config.vocabulary = 256;
  Transformer model(config);
  Options options;
  options.sample = 20;
  options.prompt = "ab";
  const std::string one = sample(model, Tokenizer(), options, at::kCPU);
  EXPECT_EQ(one.size(), 22U);
  EXPECT_EQ(one, sample(model, Tokenizer(), options, at::kCPU));
  options.seed = 2;
  EXPECT_NE(one, sample(model, Tokenizer(), options, at::kCPU));
  options.temperature = 0;
  const std::string likeliest = sample(model, Tokenizer(), options, at::kCPU);
  options.temperature = 1;
  options.topK = 1;
  EXPECT_EQ(sample(model, Tokenizer(), options, at::kCPU), likeliest);
  options.prompt = "";
  EXPECT_EQ(sample(model, Tokenizer(), options, at::kCPU)[0], '\n');
}

TEST(Lm, DevicesAreRefusedByName) {
  Options options;
  options.device = "toaster";
  EXPECT_SAYS(errorOf([&] { deviceOf(options.device); }), "--device=toaster: allowed are cpu");
  options.device = "cuda:99";
  EXPECT_SAYS(errorOf([&] { deviceOf(options.device); }), "--device=cuda:99: this LibTorch sees");
}

TEST(Lm, TheBenchTellsItsFigures) {
  const Folder folder;
  Options options = smallOptions(folder.string());
  options.bench = 2;
  options.vocabulary = 300;
  const auto line = nlohmann::json::parse(bench(options));
  EXPECT_EQ(line["vocabulary"], 300);
  EXPECT_NEAR(line["tokens_per_second"].get<double>() * line["step_ms"].get<double>(), 2 * 16 * 1e3,
              1e-6);
  EXPECT_GT(line["mfu"], 0);
}

class LmGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA())
      GTEST_SKIP() << "this LibTorch sees no GPU";
    options = smallOptions(folder.string());
    options.device = "cuda";
    options.model = {};
    options.settle();
    options.steps = 60;
    options.deterministic = true;
  }
  void TearDown() override {
    disable();
    at::globalContext().setDeterministicAlgorithms(false, false);
  }

  Folder folder;
  Options options;
};

TEST_F(LmGpu, KilnChangesRoundingsOnly) {
  for (const char* precision : {"fp32", "tf32", "bf16"}) {
    options.precision = precision;
    options.kiln = "off";
    Trainer plain = trainerOf(options);
    const auto expected = lossesOf(plain, options.steps);
    for (const char* kiln : {"on", "modules"}) {
      SCOPED_TRACE(precision + std::string(", ") + kiln);
      options.kiln = kiln;
      startKiln(options.kiln);
      Trainer ours = trainerOf(options);
      ours.prepare();
      const auto losses = lossesOf(ours, options.steps);
      disable();
      expectClose(losses, expected, std::string(precision) == "fp32" ? 5e-3 : 3e-2);
      EXPECT_LT(losses.back(), losses.front() - 1);
    }
  }
  EXPECT_GT(peakMemory(deviceOf(options.device)), 1e6);
}

TEST_F(LmGpu, AResumedRunIsTheUninterruptedOne) {
  options.precision = "bf16";
  for (const char* kiln : {"off", "on", "modules"}) {
    options.kiln = kiln;
    startKiln(options.kiln);
    Trainer whole = trainerOf(options);
    whole.prepare();
    lossesOf(whole, 10);
    const auto path = whole.save();
    const auto expected = lossesOf(whole, 20);
    // The same bits, kept or computed again; modules add and normalize in other kernels then.
    options.recompute = options.kiln != "modules";
    Trainer resumed = trainerOf(options);
    resumed.resume(path);
    EXPECT_EQ(lossesOf(resumed, 20), expected) << kiln;
    expectSameParameters(whole, resumed);
    options.recompute = false;
  }
}

} // namespace
} // namespace kiln::lm
