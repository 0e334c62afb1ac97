// A step of torch::nn::TransformerEncoder, a LibTorch program that knows nothing of Kiln, without
// and with kiln::enable(): forward, backward and SGD over random sequences, blocks of steps in
// turns. Medians of the blocks, a line of JSON.
//   encoder [--bf16] [--width=768] ...; a GPU if there is one, else the CPU by KILN_PLACE=cpu,
//   slowly
#include "kiln/torch.h"
#include "models/common/Precision.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include <chrono>
#include <iostream>

using at::Tensor;

namespace {

struct Setting {
  std::int64_t width = 768, heads = 12, hidden = 3072, layers = 6, length = 512, batch = 32;
  double dropout = 0.1;
  std::int64_t blocks = 7, steps = 10;
  bool bf16 = false;
};

class Program {
 public:
  Program(const Setting& setting, at::Device device)
      : setting(setting), device(device),
        encoder(torch::nn::TransformerEncoderLayer(
                    torch::nn::TransformerEncoderLayerOptions(setting.width, setting.heads)
                        .dim_feedforward(setting.hidden)
                        .dropout(setting.dropout)
                        .activation(torch::kGELU)),
                setting.layers) {
    encoder->to(device);
    input = torch::randn({setting.length, setting.batch, setting.width}, device);
    optimizer = std::make_unique<torch::optim::SGD>(encoder->parameters(), 1e-3);
  }

  void step() {
    Tensor loss;
    {
      const kiln::models::Autocast autocast(
          device.type(), kiln::models::Autocast::of(setting.bf16 ? "bf16" : "fp32"));
      loss = encoder(input).to(torch::kFloat).square().mean();
    }
    loss.backward();
    optimizer->step();
    optimizer->zero_grad();
  }

  /// Milliseconds a step.
  double time() {
    synchronize();
    const auto begin = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < setting.steps; ++i)
      step();
    synchronize();
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - begin;
    return spent.count() / double(setting.steps);
  }

 private:
  void synchronize() const {
    if (device.is_cuda())
      torch::cuda::synchronize();
  }

  Setting setting;
  at::Device device;
  torch::nn::TransformerEncoder encoder;
  Tensor input;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void measure(const Setting& setting) {
  const at::Device device(torch::cuda::is_available() ? at::kCUDA : at::kCPU);
  kiln::models::setPrecision("tf32", /*deterministic=*/false);
  Program program(setting, device);
  const auto options = kiln::Options::fromEnvironment();
  kiln::enable(options);
  program.step();
  kiln::wait();
  std::vector<double> plain, routed;
  for (std::int64_t i = -1; i < setting.blocks; ++i) { // one block to warm up
    kiln::disable();
    const double without = program.time();
    kiln::enable(options);
    const double with = program.time();
    if (i >= 0) {
      plain.push_back(without);
      routed.push_back(with);
    }
  }
  std::cerr << kiln::report();
  std::cout << nlohmann::ordered_json{{"what", "torch::nn::TransformerEncoder"},
                                      {"device", device.str()},
                                      {"precision", setting.bf16 ? "bf16" : "tf32"},
                                      {"width", setting.width},
                                      {"heads", setting.heads},
                                      {"hidden", setting.hidden},
                                      {"layers", setting.layers},
                                      {"length", setting.length},
                                      {"batch", setting.batch},
                                      {"dropout", setting.dropout},
                                      {"blocks", setting.blocks},
                                      {"steps", setting.steps},
                                      {"plain_ms", median(plain)},
                                      {"kiln_ms", median(routed)},
                                      {"gain", median(plain) / median(routed)}}
            << '\n';
}

} // namespace

int main(int argc, char** argv) try {
  Setting setting;
  CLI::App app("Times torch::nn::TransformerEncoder without and with Kiln.", "encoder");
  const std::pair<const char*, std::int64_t*> sizes[] = {
      {"--width", &setting.width},   {"--heads", &setting.heads},   {"--hidden", &setting.hidden},
      {"--layers", &setting.layers}, {"--length", &setting.length}, {"--batch", &setting.batch},
      {"--blocks", &setting.blocks}, {"--steps", &setting.steps}};
  for (auto [name, value] : sizes)
    app.add_option(name, *value)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--dropout", setting.dropout)->capture_default_str();
  app.add_flag("--bf16", setting.bf16, "autocast");
  CLI11_PARSE(app, argc, argv);
  measure(setting);
  return 0;
} catch (const std::exception& error) {
  std::cerr << "encoder: " << error.what() << '\n';
  return 1;
}
