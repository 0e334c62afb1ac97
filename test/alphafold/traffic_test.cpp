// What a block moves beside its products: on Kiln's kernels, which the CPU's host target runs here,
// no representation is copied, cast or put together. Results beside fp64.
#include "kiln/torch.h"
#include "models/alphafold/model/Evoformer.h"
#include "models/common/Precision.h"
#include "test/alphafold/Synthetic.h"

#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <atomic>

namespace kiln::alphafold {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

/// Copies of at least so many elements, of so many residues, while it lives; but for those within
/// products of the CPU. Numbers of channels are powers of two, or three times as many, so that no
/// weight is counted.
class LargeCopies {
 public:
  LargeCopies(std::int64_t elements, std::int64_t residues)
      : handle(
            (least = elements, of = residues, count = 0,
             at::addGlobalCallback(at::RecordFunctionCallback(&begin, &end).needsInputs(true)))) {}
  ~LargeCopies() { at::removeCallback(handle); }
  LargeCopies(const LargeCopies&) = delete;
  LargeCopies& operator=(const LargeCopies&) = delete;

  static inline std::atomic<int> count = 0;

 private:
  struct Within : at::ObserverContext {};
  static inline std::int64_t least = 0, of = 1;
  static inline thread_local int products = 0;

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& call) {
    const std::string_view name = call.name();
    for (const char* product : {"aten::mm", "aten::addmm", "aten::addmm_", "aten::bmm",
                                "aten::_addmm_activation", "aten::sum"})
      if (name == product) {
        ++products;
        return std::make_unique<Within>();
      }
    if (products == 0 && name == "aten::copy_") {
      const std::int64_t elements = call.inputs()[0].toTensor().numel();
      count += elements >= least && elements % of == 0;
    }
    return nullptr;
  }
  static void end(const at::RecordFunction&, at::ObserverContext* context) {
    products -= context != nullptr;
  }

  at::CallbackHandle handle;
};

constexpr std::int64_t rows = 8, residues = 40;

struct Case {
  Masks masks;
  Tensor m, z;
};

Case caseOf(const ModelConfig& config) {
  const Seeded seeded(1);
  Tensor mask = at::ones({rows, residues});
  mask[rows - 1].slice(0, residues / 2).zero_();
  return {{mask, Tensor()},
          at::randn({rows, residues, config.msa}).to(at::kBFloat16),
          at::randn({residues, residues, config.pair}).to(at::kBFloat16)};
}

/// m, z, and the gradients of both inputs and of all parameters.
Tensors passed(EvoformerBlock& block, const Case& given, at::ScalarType type) {
  Masks masks = given.masks;
  if (type == at::kDouble)
    masks.msa = masks.msa.to(type);
  const Tensor m = given.m.detach().to(type).requires_grad_(),
               z = given.z.detach().to(type).requires_grad_();
  Tensors made;
  {
    const models::Autocast autocast(at::kCPU,
                                    models::Autocast::of(type == at::kBFloat16 ? "bf16" : "fp32"));
    const Representations out = block(Representations{m, z}, masks);
    made = {out.m, out.z};
  }
  Tensors leaves = {m, z};
  for (const Tensor& parameter : block->parameters())
    leaves.push_back(parameter);
  const Tensors cotangents = {at::ones_like(made[0]), at::ones_like(made[1])};
  for (const Tensor& gradient : torch::autograd::grad(made, leaves, cotangents))
    made.push_back(gradient);
  return made;
}

TEST(AlphaFoldTraffic, ABlockCopiesNoRepresentation) {
  kiln::enable(kiln::Options::fromEnvironment());
  ModelConfig config = ModelConfig::named("model_1");
  at::manual_seed(1);
  EvoformerBlock block(config);
  stir(*block, 2, 0.02);
  block->eval(); // dropout is the same pass
  const Case given = caseOf(config);
  passed(block, given, at::kBFloat16);
  kiln::wait(); // until kernels are there
  Tensors found;
  {
    const LargeCopies copies(rows * residues * config.msa / 2, residues);
    found = passed(block, given, at::kBFloat16);
    EXPECT_EQ(copies.count, 2) << "triangle products as rows, which a product makes on a GPU";
  }
  EXPECT_EQ(found[0].scalar_type(), at::kBFloat16);
  EXPECT_EQ(found[1].scalar_type(), at::kBFloat16);
  block->to(at::kDouble);
  const Tensors expected = passed(block, given, at::kDouble);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double error = (found[i].to(at::kDouble) - expected[i]).norm().item<double>();
    constexpr double least = 5; // that of the bias of pairs' norm is 0: softmax sees no constant
    EXPECT_LT(error, 6e-2 * std::max(least, expected[i].norm().item<double>())) << i;
  }
  kiln::disable();
}

} // namespace
} // namespace kiln::alphafold
