// Maps of one tensor as few products, products of planes and updates of streams, beside the same
// step by step in fp64: results, gradients, and which gradients are read as one.
#include "kiln/kiln.h"
#include "models/alphafold/model/OuterProduct.h"
#include "models/alphafold/model/Stream.h"
#include "models/alphafold/model/TriangleProduct.h"
#include "models/common/Casts.h"
#include "models/common/Precision.h"
#include "models/common/Products.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace kiln::alphafold {
namespace {

using at::Tensor;
using models::cast;
using models::Casts;
using models::columnSums;
using models::Layout;
using models::products;
using Tensors = std::vector<Tensor>;

Tensor leaf(at::IntArrayRef sizes, at::ScalarType type = at::kDouble) {
  return at::randn(sizes, type).requires_grad_();
}

Tensors gradientsOf(const Tensors& results, const Tensors& leaves) {
  Tensors cotangents;
  for (std::size_t i = 0; i < results.size(); ++i)
    cotangents.push_back(at::linspace(-1, 1 + double(i), results[i].numel(), at::kDouble)
                             .view(results[i].sizes())
                             .to(results[i].scalar_type()));
  return torch::autograd::grad(results, leaves, cotangents, /*retain_graph=*/true,
                               /*create_graph=*/false, /*allow_unused=*/true);
}

void expectSame(const Tensors& found, const Tensors& expected, double tolerance = 1e-10) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].defined(), expected[i].defined()) << i;
    EXPECT_TRUE(!found[i].defined() || at::allclose(found[i], expected[i], tolerance, tolerance))
        << i;
  }
}

struct Maps {
  Tensor x = leaf({3, 4, 8}), a = leaf({6, 8}), b = leaf({10, 8}), c = leaf({5, 8}),
         ofC = leaf({5}), d = leaf({2, 8}), e = leaf({3, 8});
  Tensors leaves() const { return {x, a, b, c, ofC, d, e}; }
  Tensors made() const {
    return products(x, {{a}, {b}, {c, ofC}, {d, {}, Layout::planes}, {e, {}, Layout::planes}});
  }
  Tensors byStep() const {
    const auto planes = [&](const Tensor& w) { return at::linear(x, w).permute({2, 0, 1}); };
    return {at::linear(x, a), at::linear(x, b), at::linear(x, c, ofC), planes(d), planes(e)};
  }
};

TEST(AlphaFoldProducts, MapsAreThoseOfTheirWeights) {
  at::manual_seed(1);
  const Maps maps;
  const Tensors made = maps.made(), expected = maps.byStep();
  expectSame(made, expected);
  EXPECT_TRUE(made[0].is_alias_of(made[1])) << "neighbours are one product";
  EXPECT_FALSE(made[1].is_alias_of(made[2])) << "only one of them has a bias";
  EXPECT_TRUE(made[3].is_contiguous() && made[4].is_contiguous());
  expectSame(gradientsOf(made, maps.leaves()), gradientsOf(expected, maps.leaves()));
}

TEST(AlphaFoldProducts, WhatNobodyReadsHasNoGradient) {
  at::manual_seed(2);
  const Maps maps;
  const Tensors made = maps.made(), expected = maps.byStep();
  expectSame(gradientsOf({made[1], made[4]}, maps.leaves()),
             gradientsOf({expected[1], expected[4]}, maps.leaves()));
}

/// Gradients that lie side by side, in their order and in another.
TEST(AlphaFoldProducts, PartsOfOneGradientAreReadWhereTheyLie) {
  at::manual_seed(3);
  const Tensor x = leaf({7, 4}), a = leaf({3, 4}), b = leaf({3, 4});
  const Tensor gradients = at::randn({7, 6}, at::kDouble);
  for (const std::int64_t first : {0, 3}) {
    const Tensors parts = {gradients.narrow(1, first, 3), gradients.narrow(1, 3 - first, 3)};
    const Tensors made = products(x, {{a}, {b}});
    const Tensors found = torch::autograd::grad(made, {x, a, b}, parts);
    expectSame(found, {parts[0].mm(a) + parts[1].mm(b), parts[0].t().mm(x), parts[1].t().mm(x)});
  }
}

/// Weights that lie side by side are one product, those of other sizes or places are not, and all
/// results are contiguous.
TEST(AlphaFoldProducts, ResultsStacked) {
  at::manual_seed(6);
  const Tensor x = leaf({3, 4, 8});
  const Tensors memory =
      models::besideEachOther({at::empty({6, 8}), at::empty({6, 8})}, at::kDouble);
  Tensors weights;
  for (const Tensor& one : memory)
    weights.push_back(one.detach().normal_().requires_grad_());
  weights.push_back(leaf({6, 8}));
  weights.push_back(leaf({5, 8}));
  const Tensor bias = leaf({5});
  const auto stacked = [](const Tensor& weight, const Tensor& bias = {}) {
    return models::Map{weight, bias, Layout::stacked};
  };
  const Tensors made = products(x, {stacked(weights[0]), stacked(weights[1]), stacked(weights[2]),
                                    stacked(weights[3], bias)});
  const Tensors expected = {at::linear(x, weights[0]), at::linear(x, weights[1]),
                            at::linear(x, weights[2]), at::linear(x, weights[3], bias)};
  expectSame(made, expected);
  for (const Tensor& one : made)
    EXPECT_TRUE(one.is_contiguous());
  EXPECT_TRUE(made[0].is_alias_of(made[1])) << "their weights lie side by side";
  EXPECT_FALSE(made[1].is_alias_of(made[2])) << "theirs do not";
  Tensors leaves = {x, bias};
  leaves.insert(leaves.end(), weights.begin(), weights.end());
  expectSame(gradientsOf(made, leaves), gradientsOf(expected, leaves));
  expectSame(gradientsOf({made[1], made[2]}, leaves),
             gradientsOf({expected[1], expected[2]}, leaves));
}

/// Results are changed where they lie; gradients too if nobody else has them, else in a copy.
TEST(AlphaFoldProducts, PartsAreChangedInPlace) {
  at::manual_seed(7);
  const Tensor x = leaf({7, 4}), a = leaf({3, 4}), b = leaf({5, 4});
  std::vector<const void*> seen;
  const models::InPlace inPlace = {[](at::TensorList all) { Tensor(all[1]).mul_(2); },
                                   [&](at::TensorList all) {
                                     seen.clear();
                                     for (const Tensor& one : all)
                                       seen.push_back(one.defined() ? one.data_ptr() : nullptr);
                                     if (all[1].defined())
                                       Tensor(all[1]).mul_(2);
                                   }};
  const auto made = [&] { return products(x, {{a}, {b}}, inPlace); };
  const Tensors expected = {at::linear(x, a), 2 * at::linear(x, b)};
  expectSame(made(), expected);
  const Tensor given = at::randn({7, 8}, at::kDouble), before = given.clone();
  const Tensors parts = given.split_with_sizes({3, 5}, 1);
  const auto gradients = [&](const Tensors& results, const Tensors& of) {
    return torch::autograd::grad(results, {x, a, b}, of, {}, false, /*allow_unused=*/true);
  };
  expectSame(gradients(made(), parts), gradients(expected, parts));
  EXPECT_TRUE(at::equal(given, before)) << "the caller has them";
  expectSame(gradients({made()[1]}, {parts[1]}), gradients({2 * at::linear(x, b)}, {parts[1]}));
  EXPECT_EQ(seen[0], nullptr);
  const void* own = nullptr;
  const Tensors results = made();
  results[0].register_hook([&](const Tensor& gradient) { own = gradient.data_ptr(); });
  const Tensor loss = (results[0] * parts[0]).sum() + (results[1] * parts[1]).sum();
  expectSame(torch::autograd::grad({loss}, {x, a, b}),
             gradients({at::linear(x, a), 2 * at::linear(x, b)}, parts));
  EXPECT_EQ(seen[0], own) << "fresh gradients are changed where they lie";
  EXPECT_THROW(torch::autograd::grad(made(), {x}, parts, {}, /*create_graph=*/true), Error);
}

TEST(AlphaFoldProducts, AutocastRoundsAndGradientsAreOfTheWeights) {
  at::manual_seed(4);
  const Tensor x = leaf({9, 16}, at::kFloat), w = leaf({5, 16}, at::kFloat),
               v = leaf({8, 16}, at::kFloat), b = leaf({8}, at::kFloat);
  Tensors made;
  {
    const models::Autocast autocast(at::kCPU, models::Autocast::of("bf16"));
    made = products(x, {{w}, {v, b}});
  }
  EXPECT_EQ(made[0].scalar_type(), at::kBFloat16);
  const Tensors expected = {at::linear(x, w), at::linear(x, v, b)};
  expectSame({made[0].to(at::kFloat), made[1].to(at::kFloat)}, expected, 5e-2);
  const Tensors found = gradientsOf(made, {x, w, v, b});
  for (const Tensor& gradient : found)
    EXPECT_EQ(gradient.scalar_type(), at::kFloat);
  expectSame(found, gradientsOf(expected, {x, w, v, b}), 5e-2);
}

TEST(AlphaFoldProducts, TrianglesOfPlanes) {
  at::manual_seed(5);
  const Tensor left = leaf({3, 6, 6}), leftGate = leaf({3, 6, 6}), right = leaf({3, 6, 6}),
               rightGate = leaf({3, 6, 6}), biases = leaf({4, 3}),
               some = (at::rand({6, 6}) > 0.3).to(at::kDouble);
  const auto opened = [](const Tensor& values, const Tensor& gate, const Tensor& bias,
                         const Tensor& gateBias) {
    return at::sigmoid(gate + gateBias.view({3, 1, 1})) * (values + bias.view({3, 1, 1}));
  };
  const Tensors leaves = {left, leftGate, right, rightGate, biases};
  for (const Tensor& mask : {some, Tensor()})
    for (const Sides sides : {Sides::outgoing, Sides::incoming}) {
      const Tensor found = triangleProduct({left, leftGate, biases[0], biases[1]},
                                           {right, rightGate, biases[2], biases[3]}, mask, sides);
      Tensor a = opened(left, leftGate, biases[0], biases[1]),
             b = opened(right, rightGate, biases[2], biases[3]);
      if (mask.defined()) {
        a = a * mask;
        b = b * mask;
      }
      const Tensor expected =
          at::einsum(sides == Sides::outgoing ? "cik,cjk->cij" : "cki,ckj->cij", {a, b});
      expectSame({found}, {expected});
      expectSame(gradientsOf({found}, leaves), gradientsOf({expected}, leaves));
    }
  EXPECT_TRUE(at::equal(rowsOf(left), left.permute({1, 2, 0})));
}

TEST(AlphaFoldProducts, OuterProductsThroughALinearMap) {
  at::manual_seed(6);
  const Tensor left = leaf({5, 4, 3}), right = leaf({5, 4, 3}), weight = leaf({7, 9});
  const Tensor found = outerProduct(left, right, weight);
  const Tensor expected = at::einsum("sic,sjd,ocd->ijo", {left, right, weight.view({7, 3, 3})});
  expectSame({found}, {expected});
  expectSame(gradientsOf({found}, {left, right, weight}),
             gradientsOf({expected}, {left, right, weight}));
}

/// With and without a gate, a scale and a norm behind.
TEST(AlphaFoldProducts, UpdatesOfStreams) {
  at::manual_seed(7);
  const Tensor z = leaf({4, 4, 6}), values = leaf({4, 4, 6}), bias = leaf({6}),
               gate = leaf({4, 4, 6}), gateBias = leaf({6}), row = at::rand({1, 4, 6}, at::kDouble),
               pair = at::rand({4, 4, 1}, at::kDouble);
  LayerNorm norm(6);
  norm->to(at::kDouble);
  const Tensors leaves = {z, values, bias, gate, gateBias, norm->weight, norm->bias};
  const std::vector<std::pair<Update, Tensor>> all = {
      {{values, bias}, values + bias},
      {{.values = values, .bias = bias, .scale = pair}, pair * (values + bias)},
      {{values, bias, gate, gateBias}, at::sigmoid(gate + gateBias) * (values + bias)},
      {{values, bias, gate, gateBias, row}, row * at::sigmoid(gate + gateBias) * (values + bias)}};
  for (const auto& [update, alone] : all) {
    const Tensor sum = z + alone, found = added(z, update);
    expectSame({found, update.alone()}, {sum, alone});
    expectSame(gradientsOf({found}, leaves), gradientsOf({sum}, leaves));
    const auto [stream, normed] = added(z, update, norm);
    const Tensor expected = at::layer_norm(sum, {6}, norm->weight, norm->bias, LayerNormImpl::eps);
    expectSame({stream, normed}, {sum, expected});
    expectSame(gradientsOf({stream, normed}, leaves), gradientsOf({sum, expected}, leaves));
    expectSame(gradientsOf({normed}, leaves), gradientsOf({expected}, leaves));
  }
}

/// Within a scope parameters are cast once, from the second scope on; what has changed between two
/// is seen.
TEST(AlphaFoldProducts, ParametersAreCastOnceAScope) {
  at::manual_seed(9);
  const Tensor w = leaf({5, 16}, at::kFloat), v = leaf({8, 16}, at::kFloat);
  const auto both = [&] { return cast({w, v}, at::kBFloat16); };
  Casts casts;
  for (int step = 0; step < 3; ++step) {
    {
      const at::NoGradGuard constant;
      w.add_(1);
    }
    const Casts::Scope once(casts);
    const Tensors first = both(), again = both();
    EXPECT_EQ(first[0].is_alias_of(again[0]), step > 0) << "learnt from the first scope";
    for (const Tensors& found : {first, again}) {
      EXPECT_TRUE(at::equal(found[0], w.to(at::kBFloat16)));
      EXPECT_TRUE(at::equal(found[1], v.to(at::kBFloat16)));
      EXPECT_TRUE(found[0].is_alias_of(found[1])) << "side by side";
    }
  }
  EXPECT_FALSE(both()[0].is_alias_of(both()[0])) << "nothing is kept for who is outside";
}

TEST(AlphaFoldProducts, SumsDownColumns) {
  at::manual_seed(8);
  const Tensor wide = at::randn({3, 5, 12}).to(at::kBFloat16);
  for (const Tensor& x : {wide, wide.narrow(-1, 4, 8), at::randn({9, 2}, at::kDouble)}) {
    const Tensor sums = columnSums(x, at::kDouble);
    EXPECT_TRUE(at::allclose(sums, x.flatten(0, -2).to(at::kDouble).sum(0), 1e-5, 1e-5));
  }
}

} // namespace
} // namespace kiln::alphafold
