// An ordinary LibTorch trainer, and Kiln under it.
#include <kiln/torch.h>
#include <torch/torch.h>

#include <iostream>

int main() {
  kiln::enable(); // the one line
  torch::manual_seed(1);
  const torch::Device device(torch::cuda::is_available() ? torch::kCUDA : torch::kCPU);
  torch::nn::Sequential model(torch::nn::Linear(64, 256),
                              torch::nn::LayerNorm(torch::nn::LayerNormOptions({256})),
                              torch::nn::GELU(), torch::nn::Linear(256, 10));
  model->to(device);
  torch::optim::AdamW optimizer(model->parameters(), 1e-2);
  const auto x = torch::randn({1024, 64}, device);
  const auto labels = x.slice(1, 0, 10).argmax(1);
  float first = 0, last = 0;
  for (int step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    auto loss = torch::nn::functional::cross_entropy(model->forward(x), labels);
    loss.backward();
    optimizer.step();
    (step == 0 ? first : last) = loss.item<float>();
  }
  std::cout << "loss " << first << " -> " << last << "\n";
  std::cout << kiln::report();
  return last < first / 2 ? 0 : 1;
}
