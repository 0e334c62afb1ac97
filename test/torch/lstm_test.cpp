// kiln::nn::LSTM beside torch's, on tensors of the CPU whose kernels the host target executes.
#include "test/torch/Helpers.h"

#include <ATen/autocast_mode.h>
#include <kiln/nn.h>
#include <torch/torch.h>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

class Lstm : public OnHostTarget {};

/// All that an LSTM returns, then gradients of x, of the state and of the parameters.
std::vector<Tensor> runLstm(auto& lstm, const Tensor& x, const std::vector<Tensor>& state) {
  using State = std::tuple<Tensor, Tensor>;
  const auto [y, last] =
      lstm->forward(x, state.empty() ? std::nullopt : std::optional(State(state[0], state[1])));
  const auto& [h, c] = last;
  std::vector<Tensor> all = {y, h, c}, leaves = lstm->parameters(), cotangents;
  leaves.push_back(x);
  leaves.insert(leaves.end(), state.begin(), state.end());
  for (const Tensor& root : all)
    cotangents.push_back(
        at::linspace(-1, 1.5, root.numel()).view(root.sizes()).to(root.scalar_type()));
  const auto gradients = torch::autograd::grad(all, leaves, cotangents);
  all.insert(all.end(), gradients.begin(), gradients.end());
  return all;
}

void takeNumbers(torch::nn::Module& to, const torch::nn::Module& from) {
  const at::NoGradGuard off;
  const auto theirs = from.named_parameters();
  ASSERT_EQ(to.named_parameters().keys(), theirs.keys());
  for (auto& item : to.named_parameters())
    item.value().copy_(theirs[item.key()]);
}

TEST_F(Lstm, IsTorchs) {
  const auto before = callsByKiln("lstm_cell"), backward = callsByKiln("lstm_cell_backward");
  struct Form {
    std::int64_t width, layers;
    bool bias, batchFirst, bidirectional, hasState;
  };
  for (const Form& form : {Form{16, 1, true, false, false, false},
                           {16, 2, true, true, true, true},
                           {5, 1, false, false, false, true},
                           {1, 2, true, false, true, false}})
    for (at::ScalarType type : {at::kFloat, at::kDouble}) {
      SCOPED_TRACE(std::to_string(form.width) + " " + c10::toString(type));
      torch::nn::LSTM theirs(torch::nn::LSTMOptions(7, form.width)
                                 .num_layers(form.layers)
                                 .bias(form.bias)
                                 .batch_first(form.batchFirst)
                                 .bidirectional(form.bidirectional));
      nn::LSTM ours(7, form.width,
                    nn::LSTMOptions{.layers = form.layers,
                                    .bias = form.bias,
                                    .batchFirst = form.batchFirst,
                                    .bidirectional = form.bidirectional});
      takeNumbers(*ours, *theirs);
      ours->to(type);
      theirs->to(type);
      const Tensor x = at::randn({4, 3, 7}, type).requires_grad_();
      std::vector<Tensor> state;
      const std::int64_t states = form.layers * (form.bidirectional ? 2 : 1);
      for (int i = 0; form.hasState && i < 2; ++i)
        state.push_back(
            at::randn({states, form.batchFirst ? 4 : 3, form.width}, type).requires_grad_());
      const auto a = runLstm(ours, x, state), b = runLstm(theirs, x, state);
      for (std::size_t i = 0; i < b.size(); ++i) {
        EXPECT_EQ(a[i].sizes(), b[i].sizes()) << i;
        EXPECT_TRUE(at::allclose(a[i], b[i], 1e-4, 2e-5))
            << i << ": " << (a[i] - b[i]).abs().max().item<double>();
      }
    }
  // One kernel a step, of each layer and direction: (4 + 3 * 4 + 4 + 4 * 4) in fp32.
  EXPECT_EQ(callsByKiln("lstm_cell"), before + 36) << report();
  EXPECT_EQ(callsByKiln("lstm_cell_backward"), backward + 36) << report();
  // Rows of gates are read and written where they lie, 64 elements apart.
  EXPECT_TRUE(reports("lstm_cell                    3x16 f32")) << report();
}

/// Beside torch's, from the same numbers in fp64: on CPUs both are exact to roundings of fp32. (On
/// GPUs cuDNN may compute products in TF32, where differences of 2e-4 come from: the same test with
/// tensors there says whose they are.)
TEST_F(Lstm, IsAsExactAsTorchs) {
  torch::nn::LSTM theirs(torch::nn::LSTMOptions(24, 40).num_layers(2)), exact(theirs->options);
  nn::LSTM ours(24, 40, nn::LSTMOptions{.layers = 2});
  takeNumbers(*ours, *theirs);
  exact->to(at::kDouble);
  takeNumbers(*exact, *theirs);
  const Tensor x = at::randn({20, 5, 24}), wide = x.to(at::kDouble).requires_grad_();
  const auto a = runLstm(ours, x.detach().requires_grad_(), {}),
             b = runLstm(theirs, x.detach().requires_grad_(), {}), c = runLstm(exact, wide, {});
  ASSERT_EQ(a.size(), c.size());
  const auto errorOf = [](const Tensor& of, const Tensor& right) {
    return (of.to(at::kDouble) - right).abs().max().item<double>();
  };
  for (std::size_t i = 0; i < c.size(); ++i)
    EXPECT_LE(errorOf(a[i], c[i]),
              2 * errorOf(b[i], c[i]) + 0x1p-22 * c[i].abs().max().item<double>())
        << i << ": torch's " << errorOf(b[i], c[i]);
}

TEST_F(Lstm, InBf16AndUnderAutocast) {
  nn::LSTM lstm(8, 16);
  const Tensor x = at::randn({6, 4, 8});
  const Tensor exact = std::get<0>(lstm(x)).detach();
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const Tensor under = std::get<0>(lstm(x));
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  EXPECT_EQ(under.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::allclose(under.to(at::kFloat), exact, 3e-2, 3e-2));
  under.sum().backward();
  EXPECT_EQ(lstm->parameters()[0].grad().scalar_type(), at::kFloat);
  const Tensor wide = lstm->parameters()[1].grad().clone();
  lstm->zero_grad();
  std::get<0>(lstm(x)).sum().backward();
  EXPECT_TRUE(at::allclose(wide, lstm->parameters()[1].grad(), 5e-2, 5e-2));
  lstm->to(at::kBFloat16);
  const Tensor half = std::get<0>(lstm(x.to(at::kBFloat16)));
  EXPECT_TRUE(at::allclose(half, under, 2e-2, 2e-2)); // of biases rounded before they are added
}

TEST_F(Lstm, DropsBetweenLayers) {
  nn::LSTM ours(4, 8, nn::LSTMOptions{.layers = 2, .dropout = 0.5});
  torch::nn::LSTM theirs(torch::nn::LSTMOptions(4, 8).num_layers(2).dropout(0.5));
  takeNumbers(*ours, *theirs);
  const Tensor x = at::randn({3, 2, 4});
  const auto drawn = [&](auto& lstm) {
    torch::manual_seed(3);
    return std::get<0>(lstm->forward(x)).detach();
  };
  expectClose(drawn(ours), drawn(theirs), "while training");
  ours->eval();
  theirs->eval();
  expectClose(drawn(ours), drawn(theirs), "while evaluating");
}

TEST_F(Lstm, AtTheEdges) {
  nn::LSTM lstm(4, 8);
  const auto [y, state] = lstm(at::randn({3, 0, 4}));
  EXPECT_EQ(y.sizes(), (at::IntArrayRef{3, 0, 8}));
  EXPECT_EQ(std::get<1>(state).sizes(), (at::IntArrayRef{1, 0, 8}));
  y.sum().backward();
  EXPECT_TRUE(at::equal(lstm->parameters()[1].grad(), at::zeros({32, 8})));
  const auto says = [](const auto& call, const char* part) {
    try {
      call();
      FAIL() << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  says([&] { lstm(at::randn({5, 4})); }, "x is [5, 4]; [steps, batch, 4] with at least one step is "
                                         "taken. Packed sequences are not");
  says([&] { lstm(at::randn({0, 2, 4})); }, "at least one step");
  says([&] { lstm(at::randn({3, 2, 4}), std::tuple(at::zeros({1, 2, 8}), at::zeros({2, 8}))); },
       "c [2, 8] for x with a batch of 2; both must be [1, 2, 8]");
  says([] { nn::LSTM(4, 0); }, "hidden size 0");
  says([] { nn::LSTM(4, 8, nn::LSTMOptions{.dropout = 2}); }, "dropout = 2 is no probability");
  const Tensor x = at::randn({2, 2, 4}).requires_grad_();
  const Tensor dx = torch::autograd::grad({std::get<0>(lstm(x)).sum()}, {x}, {}, true, true)[0];
  EXPECT_THROW(torch::autograd::grad({dx.sum()}, {x}), c10::Error); // gradients of gradients
  std::stringstream file;
  torch::save(lstm, file);
  torch::nn::LSTM theirs(torch::nn::LSTMOptions(4, 8));
  torch::load(theirs, file);
  EXPECT_TRUE(at::equal(theirs->parameters()[3], lstm->parameters()[3]));
  const auto copy = std::dynamic_pointer_cast<nn::LSTMImpl>(lstm->clone());
  const Tensor before = std::get<0>(copy->forward(x));
  const at::NoGradGuard off;
  lstm->parameters()[0].zero_();
  EXPECT_TRUE(at::equal(std::get<0>(copy->forward(x)), before));
}

} // namespace
