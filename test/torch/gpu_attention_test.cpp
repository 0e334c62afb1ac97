// Attention on a GPU: whichever of ATen's kernels stands in until Kiln's is there, and Kiln's, in
// both directions beside ATen's formula in fp64; inside a graph; ATen's times. Skips without a GPU.
#include "test/torch/GpuHelpers.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <kiln/baseline.h>
#include <kiln/nn.h>

using namespace kiln;
using namespace kiln::test;
using at::Tensor;

namespace {

/// Of ATen's kernels only one, and its formula.
struct OnlyBackend {
  explicit OnlyBackend(at::SDPBackend one) {
    auto& context = at::globalContext();
    context.setSDPUseFlash(one == at::SDPBackend::flash_attention);
    context.setSDPUseMemEfficient(one == at::SDPBackend::efficient_attention);
    context.setSDPUseCuDNN(one == at::SDPBackend::cudnn_attention);
  }
  OnlyBackend(const OnlyBackend&) = delete;
  OnlyBackend& operator=(const OnlyBackend&) = delete;
  ~OnlyBackend() {
    auto& context = at::globalContext();
    context.setSDPUseFlash(true);
    context.setSDPUseMemEfficient(true);
    context.setSDPUseCuDNN(true);
  }
};

enum class Mask { none, causal, bools, floats };

Function attention(Mask kind, const Tensor& seen) {
  return [kind, seen](const std::vector<Tensor>& in) {
    const std::optional<Tensor> mask = kind == Mask::bools    ? std::optional(seen)
                                       : kind == Mask::floats ? std::optional(in[3])
                                                              : std::nullopt;
    return at::scaled_dot_product_attention(in[0], in[1], in[2], mask, 0, kind == Mask::causal);
  };
}

class GpuAttention : public TorchGpu {
 protected:
  /// Near fp64's, before a kernel is there and after.
  void expectNear(const Function& f, const std::vector<Tensor>& values, const Tensor& dy,
                  const std::string& what) {
    const auto exact = [&] {
      const Guard off(Mode::off);
      return run(f, values, dy, at::kDouble);
    }();
    Options waiting = strict();
    waiting.strict = false;
    for (int call = 0; call < 2; ++call) {
      const Guard guard(call == 0 ? waiting : strict());
      const auto ours = run(f, values, dy, dy.scalar_type());
      for (std::size_t i = 0; i < ours.size(); ++i)
        EXPECT_LE(errorOf(ours[i], exact[i].nan_to_num(0)),
                  (dy.scalar_type() == at::kFloat ? 64 : 4) *
                      roundingOf(exact[i].nan_to_num(0), dy.scalar_type()))
            << what << ", call " << call << ", tensor " << i;
    }
  }
};

/// The first call has no kernel of Kiln's yet; the next ones have.
TEST_F(GpuAttention, AttentionIsNearFp64WhoeverComputesIt) {
  std::int64_t queries = 65;
  bool beside = false; // the heads of a row in memory, as products leave them
  for (const at::SDPBackend backend :
       {at::SDPBackend::flash_attention, at::SDPBackend::efficient_attention,
        at::SDPBackend::cudnn_attention, at::SDPBackend::math})
    for (const auto dtype : {at::kBFloat16, at::kHalf, at::kFloat}) {
      beside = !beside;
      for (const Mask kind : {Mask::none, Mask::causal, Mask::bools, Mask::floats}) {
        const OnlyBackend only(backend);
        const std::int64_t s = ++queries, t = kind == Mask::causal ? s : s + 7,
                           d = (dtype == at::kFloat ? 24 : 64) + s % 3 * 8; // LibTorch has others
        const auto rows = [&](std::int64_t length) { // [batch, heads, rows, width]
          return beside ? at::randn({2, length, 3, d}, onGpu()).to(dtype).transpose(1, 2)
                        : at::randn({2, 3, length, d}, onGpu()).to(dtype);
        };
        std::vector<Tensor> values = {rows(s), rows(t), rows(t)};
        if (kind == Mask::floats)
          values.push_back(at::randn({1, 3, s, t}, onGpu()).to(dtype));
        Tensor seen = at::rand({2, 1, s, t}, onGpu()) > 0.3;
        seen.select(2, 5).fill_(false);
        const Function f = attention(kind, seen);
        const Tensor dy = at::randn({2, 3, s, d}, onGpu()).to(dtype);
        expectNear(f, values, dy,
                   "backend " + std::to_string(static_cast<int>(backend)) + ", " +
                       c10::toString(dtype) + ", mask " + std::to_string(static_cast<int>(kind)));
      }
    }
}

/// Rows that share a bias, as those of AlphaFold's pair representation, and have masks of their
/// own, one of which hides all.
TEST_F(GpuAttention, PairAttentionIsNearFp64) {
  for (const std::int64_t rows : {3, 21})
    for (const std::int64_t keys : {24, 136, 256, 257}) {
      const auto projected = [&] { // [rows, heads, residues, width], as linear maps leave it
        return at::randn({rows, keys, 4, 32}, onGpu(at::kBFloat16)).transpose(1, 2);
      };
      Tensor seen = at::rand({rows, 1, 1, keys}, onGpu()) > 0.2;
      seen.select(0, 1).fill_(false);
      const std::vector<Tensor> values = {projected(), projected(), projected(),
                                          at::randn({4, keys, keys}, onGpu(at::kBFloat16))};
      expectNear(
          [&](const std::vector<Tensor>& in) {
            return nn::attention(in[0], in[1], in[2], seen, in[3]);
          },
          values, at::randn({rows, 4, keys, 32}, onGpu(at::kBFloat16)),
          std::to_string(rows) + " rows of " + std::to_string(keys));
    }
}

/// As pointwise attention over templates has them: a sequence a pair of residues.
TEST_F(GpuAttention, AttentionOfMoreSequencesThanCudnnTakes) {
  const auto rows = [](std::int64_t count) {
    return at::randn({65600, 4, count, 16}, onGpu(at::kBFloat16));
  };
  Tensor seen = at::ones({1, 1, 1, 4}, onGpu(at::kBool));
  seen.select(-1, 2).fill_(false);
  for (const bool direct : {true, false})
    expectNear(
        [&](const std::vector<Tensor>& in) {
          return direct ? at::scaled_dot_product_attention(in[0], in[1], in[2], seen)
                        : nn::attention(in[0], in[1], in[2], seen);
        },
        {rows(1), rows(4), rows(4)}, rows(1), direct ? "ATen's" : "of modules");
}

/// Results of a captured call, with dropout: others at each replay.
TEST_F(TorchGpu, AttentionIsCapturedIntoGraphs) {
  const Tensor x = at::randn({2, 4, 128, 64}, onGpu(at::kBFloat16));
  const Tensor seen = at::ones({128, 128}, onGpu(at::kBool)).tril(); // ATen draws without a mask
  const auto call = [&](double p) { return at::scaled_dot_product_attention(x, x, x, seen, p); };
  const auto stream = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard side(stream);
  const Tensor plain = call(0);
  call(0.5);
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  const Tensor same = call(0), dropped = call(0.5);
  graph.capture_end();
  graph.replay();
  const Tensor first = dropped.clone();
  EXPECT_TRUE(at::equal(same, plain));
  graph.replay();
  EXPECT_FALSE(at::equal(first, dropped));
}

TEST_F(TorchGpu, AttentionHasABaseline) {
  for (const bool backward : {false, true}) {
    TuningTask task{Module::fromOp({"attention", {-1, 16, -1, 64}, DType::bf16, {{"keys", "?"}}}),
                    {},
                    {4, 1024, 1024},
                    "attention"};
    task.options.backward = backward;
    task.options.readAhead = false;
    const auto baseline = timeATen(task);
    ASSERT_TRUE(baseline);
    EXPECT_EQ(baseline->microseconds.size(), 64U);
  }
}

} // namespace
