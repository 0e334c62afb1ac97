// kiln.attention's reference against loops over the formula, and kiln.attention_backward's against
// central differences of it, through the gradient rule; all in fp64.
#include "test/unit/Derived.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

using namespace kiln;
using namespace kiln::test;

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
using Shape = std::vector<std::int64_t>;

/// An attention of heads `h` over `hk`, `s` queries over `t` keys; bias and mask where they have a
/// shape, packed sequences where there are starts, dropout where `p` is not negative.
struct Form {
  std::string name;
  Shape batch = {2};
  std::int64_t h = 2, hk = 2, s = 4, t = 5, d = 3, dv = 2;
  Shape bias = {}, mask = {};
  std::vector<double> queryStarts = {}, keyStarts = {};
  ir::Causal causal = ir::Causal::none;
  std::int64_t left = -1, right = -1;
  double softcap = 0.0, p = -1.0;

  std::int64_t batches() const {
    return std::accumulate(batch.begin(), batch.end(), std::int64_t{1}, std::multiplies<>());
  }
  Shape shape(std::initializer_list<std::int64_t> sizes) const {
    Shape all = batch;
    all.insert(all.end(), sizes);
    return all;
  }
  friend std::ostream& operator<<(std::ostream& out, const Form& form) { return out << form.name; }
};

constexpr double kScale = 0.75;

std::string type(const Shape& shape, const std::string& element = "f32") {
  return fmt::format("tensor<{}{}{}>", fmt::join(shape, "x"), shape.empty() ? "" : "x", element);
}

/// @f(q, k, v, ...) -> (o, lse); `ofOutput`, `ofLse`: which of the two have a gradient.
std::string textOf(const Form& form, bool ofOutput = true, bool ofLse = true) {
  std::string arguments, types, operands = "%q, %k, %v";
  auto add = [&](const std::string& name, const std::string& of) {
    arguments += fmt::format("{}%{}: {} {{kiln.name = \"{}\"}}", arguments.empty() ? "" : ", ",
                             name, of, name);
    types += (types.empty() ? "" : ", ") + of;
  };
  add("q", type(form.shape({form.h, form.s, form.d})));
  add("k", type(form.shape({form.hk, form.t, form.d})));
  add("v", type(form.shape({form.hk, form.t, form.dv})));
  if (!form.bias.empty()) {
    add("bias", type(form.bias));
    operands += " bias %bias";
  }
  if (!form.mask.empty()) {
    add("mask", type(form.mask, "i1"));
    operands += " mask %mask";
  }
  if (!form.queryStarts.empty()) {
    const Shape starts = {static_cast<std::int64_t>(form.queryStarts.size())};
    add("qs", type(starts, "i32"));
    add("ks", type(starts, "i32"));
    operands += " starts %qs, %ks";
  }
  if (form.p >= 0.0) {
    add("seed", "tensor<i64>");
    add("offset", "tensor<i64>");
    operands += fmt::format(" dropout %seed, %offset p {:.6f}", form.p);
  }
  const std::string o = type(form.shape({form.h, form.s, form.dv})),
                    lse = type(form.shape({form.h, form.s}));
  return fmt::format(
      "func.func @f({0}) -> ({1} {{kiln.name = \"o\", kiln.gradient = {2}}}, {3} {{kiln.name = "
      "\"lse\", kiln.gradient = {4}}}) {{\n"
      "%o, %lse = kiln.attention {5} {{scale = {6} : f32, softcap = {7:.4f} : f32, causal = "
      "#kiln.causal<{8}>, window_left = {9} : i64, window_right = {10} : i64}} : ({11}) -> ({1}, "
      "{3})\nreturn %o, %lse : {1}, {3}\n}}\n",
      arguments, o, ofOutput, lse, ofLse, operands, kScale, form.softcap,
      ir::stringifyCausal(form.causal).str(), form.left, form.right, types);
}

Tensor64 uniform(const Shape& shape, std::mt19937_64& engine) {
  Tensor64 tensor = ir::makeTensor64(shape);
  std::uniform_real_distribution<double> numbers(-1.5, 1.5);
  for (double& value : tensor.data)
    value = numbers(engine);
  return tensor;
}

Tensor64 given(const std::vector<double>& numbers) {
  Tensor64 tensor = ir::makeTensor64({static_cast<std::int64_t>(numbers.size())});
  tensor.data.assign(numbers.begin(), numbers.end());
  return tensor;
}

/// Half of the mask hides, and all of its first third; a tenth of the bias is -inf.
Tensors inputsOf(const Form& form) {
  std::mt19937_64 engine(5);
  Tensors inputs = {uniform(form.shape({form.h, form.s, form.d}), engine),
                    uniform(form.shape({form.hk, form.t, form.d}), engine),
                    uniform(form.shape({form.hk, form.t, form.dv}), engine)};
  if (!form.bias.empty()) {
    inputs.push_back(uniform(form.bias, engine));
    for (double& value : inputs.back().data)
      if (inputs.back().size() > 1 && engine() % 10 == 0)
        value = -kInfinite;
  }
  if (!form.mask.empty()) {
    Tensor64 mask = ir::makeTensor64(form.mask);
    for (std::int64_t i = mask.size() / 3; i < mask.size(); ++i)
      mask.data[i] = static_cast<double>(engine() % 2);
    inputs.push_back(mask);
  }
  if (!form.queryStarts.empty()) {
    inputs.push_back(given(form.queryStarts));
    inputs.push_back(given(form.keyStarts));
  }
  if (form.p >= 0.0)
    for (double number : {17.0, 3.0}) { // seed and offset
      inputs.push_back(ir::makeTensor64({}));
      inputs.back().data[0] = number;
    }
  return inputs;
}

/// Whether causality, window and sequences let query `i` see key `j`.
bool sees(const Form& form, std::int64_t i, std::int64_t j) {
  std::int64_t s = form.s, t = form.t;
  if (!form.queryStarts.empty()) {
    bool together = false;
    for (size_t n = 0; n + 1 < form.queryStarts.size() && !together; ++n) {
      const auto qs = static_cast<std::int64_t>(form.queryStarts[n]),
                 ks = static_cast<std::int64_t>(form.keyStarts[n]);
      s = static_cast<std::int64_t>(form.queryStarts[n + 1]) - qs;
      t = static_cast<std::int64_t>(form.keyStarts[n + 1]) - ks;
      together = i >= qs && i < qs + s && j >= ks && j < ks + t;
      if (together) {
        i -= qs;
        j -= ks;
      }
    }
    if (!together)
      return false;
  }
  const std::int64_t a = form.causal == ir::Causal::last ? t - s : 0;
  return (form.causal == ir::Causal::none || j <= i + a) &&
         (form.left < 0 || i + a - j <= form.left) && (form.right < 0 || j - i - a <= form.right);
}

/// Where dropout keeps a place, 1 / (1 - p), else 0: kiln.dropout of ones in the shape of the
/// scores.
Tensor64 keptPlaces(const Form& form, const Tensors& inputs) {
  const Shape scores = form.shape({form.h, form.s, form.t});
  if (form.p < 0.0)
    return ir::makeTensor64(scores, 1.0);
  Derived dropout(fmt::format("func.func @f(%x: {0}, %s: tensor<i64>, %o: tensor<i64>) -> {0} {{\n"
                              "%y = kiln.dropout %x, %s, %o p {1:.6f} : {0} -> {0}\n"
                              "return %y : {0}\n}}",
                              type(scores), form.p));
  return dropout.run(dropout.function("f"),
                     {ir::makeTensor64(scores, 1.0), inputs[inputs.size() - 2], inputs.back()})[0];
}

/// The element of a tensor whose sizes are those of the scores, or 1.
double broadcast(const Form& form, const Tensor64& tensor, std::int64_t b, std::int64_t head,
                 std::int64_t i, std::int64_t j) {
  Shape index(form.batch.size());
  for (size_t d = index.size(); d-- > 0; b /= form.batch[d])
    index[d] = b % form.batch[d];
  index.insert(index.end(), {head, i, j});
  std::int64_t at = 0;
  for (size_t d = 0; d < index.size(); ++d)
    at = at * tensor.shape[d] + index[d] % tensor.shape[d];
  return tensor.data[at];
}

/// Output and lse from the formula, with sums of plain exponentials.
Tensors naive(const Form& form, const Tensors& inputs) {
  const Tensor64 &q = inputs[0], &k = inputs[1], &v = inputs[2], kept = keptPlaces(form, inputs);
  const Tensor64* bias = form.bias.empty() ? nullptr : &inputs[3];
  const Tensor64* mask = form.mask.empty() ? nullptr : &inputs[bias ? 4 : 3];
  Tensor64 o = ir::makeTensor64(form.shape({form.h, form.s, form.dv}));
  Tensor64 lse = ir::makeTensor64(form.shape({form.h, form.s}));
  for (std::int64_t b = 0; b < form.batches(); ++b)
    for (std::int64_t head = 0; head < form.h; ++head)
      for (std::int64_t i = 0; i < form.s; ++i) {
        const std::int64_t row = (b * form.h + head) * form.s + i;
        const std::int64_t first = (b * form.hk + head * form.hk / form.h) * form.t;
        double sum = 0.0;
        for (std::int64_t j = 0; j < form.t; ++j) {
          if (!sees(form, i, j) || (mask && !broadcast(form, *mask, b, head, i, j)))
            continue;
          double x = 0.0;
          for (std::int64_t c = 0; c < form.d; ++c)
            x += kScale * q.row(row)[c] * k.row(first + j)[c];
          if (form.softcap > 0.0)
            x = form.softcap * std::tanh(x / form.softcap);
          const double e = std::exp(x + (bias ? broadcast(form, *bias, b, head, i, j) : 0.0));
          sum += e;
          for (std::int64_t c = 0; c < form.dv; ++c)
            o.row(row)[c] += e * kept.data[row * form.t + j] * v.row(first + j)[c];
        }
        lse.data[row] = std::log(sum);
        for (std::int64_t c = 0; c < form.dv; ++c)
          o.row(row)[c] /= sum > 0.0 ? sum : 1.0;
      }
  return {o, lse};
}

/// Each way of hiding, capping, adding and sharing alone, and some of them together.
std::vector<Form> forms() {
  using enum ir::Causal;
  constexpr std::int64_t all = std::numeric_limits<std::int64_t>::max();
  const std::vector<double> queries = {0, 3, 3, 4, 6}, keys = {0, 2, 4, 4, 8}; // of 4 sequences
  return {
      {.name = "plain"},
      {.name = "no_batch", .batch = {}},
      {.name = "two_batches", .batch = {2, 3}, .bias = {1, 3, 2, 1, 5}},
      {.name = "one_query", .s = 1},
      {.name = "no_keys", .t = 0},
      {.name = "grouped", .h = 4},
      {.name = "multi_query", .h = 3, .hk = 1, .bias = {2, 3, 1, 5}},
      {.name = "first_more_keys", .causal = first},
      {.name = "first_more_queries", .s = 6, .t = 3, .causal = first},
      {.name = "last_more_keys", .causal = last},
      {.name = "last_more_queries", .s = 6, .t = 3, .causal = last},
      {.name = "window", .left = 1, .right = 2},
      {.name = "window_left", .s = 7, .left = 1},
      {.name = "window_right", .s = 7, .right = 0},
      {.name = "window_first", .s = 7, .causal = first, .left = 1},
      {.name = "window_last", .s = 7, .causal = last, .left = 2, .right = 1},
      {.name = "window_of_all", .causal = last, .left = all, .right = all},
      {.name = "softcap", .softcap = 0.5},
      {.name = "bias", .bias = {2, 2, 4, 5}},
      {.name = "bias_of_batches", .bias = {2, 1, 4, 5}},
      {.name = "bias_of_heads", .bias = {1, 2, 4, 5}},
      {.name = "bias_of_queries", .bias = {2, 2, 4, 1}},
      {.name = "bias_of_keys", .bias = {2, 2, 1, 5}},
      {.name = "bias_of_all", .bias = {1, 1, 1, 1}, .softcap = 1.0},
      {.name = "mask", .mask = {2, 2, 4, 5}},
      {.name = "mask_of_keys", .mask = {2, 1, 1, 5}, .causal = last},
      {.name = "mask_of_queries", .bias = {1, 2, 4, 5}, .mask = {1, 1, 4, 1}},
      {.name = "packed", .batch = {}, .s = 6, .t = 8, .queryStarts = queries, .keyStarts = keys},
      {.name = "packed_first",
       .batch = {},
       .s = 6,
       .t = 8,
       .queryStarts = queries,
       .keyStarts = keys,
       .causal = first},
      {.name = "packed_window",
       .batch = {},
       .h = 4,
       .s = 6,
       .t = 8,
       .bias = {4, 6, 8},
       .queryStarts = queries,
       .keyStarts = keys,
       .causal = last,
       .left = 1},
      {.name = "packed_inside",
       .batch = {},
       .s = 9,
       .t = 9,
       .queryStarts = {1, 4, 7},
       .keyStarts = {2, 5, 6},
       .p = 0.3},
      {.name = "dropout", .p = 0.3},
      {.name = "dropout_of_32_bits",
       .h = 16,
       .hk = 16,
       .s = 8,
       .t = 8,
       .d = 1,
       .dv = 1,
       .p = 0.007},
      {.name = "dropout_of_all", .p = 1.0},
      {.name = "dropout_of_none", .p = 0.0},
      {.name = "together",
       .h = 4,
       .s = 6,
       .t = 7,
       .bias = {1, 4, 6, 7},
       .mask = {2, 1, 1, 7},
       .causal = last,
       .left = 4,
       .softcap = 2.0,
       .p = 0.2},
  };
}

class Attention : public testing::TestWithParam<Form> {};

TEST_P(Attention, ReferenceIsTheFormula) {
  const Form& form = GetParam();
  Derived f(textOf(form));
  const Tensors inputs = inputsOf(form), wanted = naive(form, inputs);
  const Tensors results = f.run(f.function("f"), inputs);
  for (size_t r = 0; r < wanted.size(); ++r) {
    ASSERT_EQ(results[r].shape, wanted[r].shape);
    for (std::int64_t i = 0; i < wanted[r].size(); ++i)
      if (wanted[r].data[i] == -kInfinite)
        EXPECT_EQ(results[r].data[i], -kInfinite) << "lse of row " << i;
      else
        EXPECT_NEAR(results[r].data[i], wanted[r].data[i], 1e-12) << "result " << r << " at " << i;
  }
}

void checkGradients(const Form& form, bool ofOutput, bool ofLse) {
  SCOPED_TRACE(fmt::format("gradients of output: {}, of lse: {}", ofOutput, ofLse));
  Derived f(textOf(form, ofOutput, ofLse));
  ASSERT_TRUE(f.derived);
  const Tensors inputs = inputsOf(form);
  std::mt19937_64 engine(9);
  std::map<std::string, Tensor64> cotangents;
  if (ofOutput)
    cotangents["do"] = uniform(form.shape({form.h, form.s, form.dv}), engine);
  if (ofLse)
    cotangents["dlse"] = uniform(form.shape({form.h, form.s}), engine);
  EXPECT_EQ(f.gradients(inputs, cotangents).size(), form.bias.empty() ? 3u : 4u);
  f.expectDifferences(inputs, cotangents, 1e-8);
}

TEST_P(Attention, GradientsAgreeWithDifferences) {
  checkGradients(GetParam(), true, true);
}

INSTANTIATE_TEST_SUITE_P(Forms, Attention, testing::ValuesIn(forms()),
                         [](const auto& info) { return info.param.name; });

TEST(AttentionGradient, OfOutputOrLseAlone) {
  const Form form{.name = "", .bias = {1, 2, 4, 5}, .causal = ir::Causal::last, .p = 0.3};
  checkGradients(form, true, false);
  checkGradients(form, false, true);
}

/// NaN stays in its row, and comes to none through places that are hidden.
TEST(AttentionReference, NaN) {
  const Form form{.name = "", .h = 1, .hk = 1, .s = 5, .causal = ir::Causal::first};
  Derived f(textOf(form));
  Tensors inputs = inputsOf(form);
  inputs[0].row(1)[0] = std::nan(""); // query 1
  inputs[1].row(4)[0] = std::nan(""); // key 4, which query 4 alone sees
  const Tensors results = f.run(f.function("f"), inputs);
  for (std::int64_t row = 0; row < form.s; ++row) {
    const bool isNaN = row == 1 || row == 4;
    EXPECT_EQ(std::isnan(results[0].row(row)[0]), isNaN) << row;
    EXPECT_EQ(std::isnan(results[1].data[row]), isNaN) << row;
  }
}

/// Scores of several hundred overflow neither forward nor backward.
TEST(AttentionReference, LargeScores) {
  const Form form{.name = "", .h = 1, .hk = 1, .s = 2, .t = 2, .d = 1, .dv = 1};
  Derived f(textOf(form, true, false));
  Tensors inputs = inputsOf(form);
  for (double& q : inputs[0].data)
    q = 1000.0;
  const Tensors results = f.run(f.function("f"), inputs);
  const auto gradients = f.gradients(inputs, {{"do", ir::makeTensor64({2, 1, 2, 1}, 1.0)}});
  for (const Tensor64& tensor : {results[0], results[1], gradients.at("dq"), gradients.at("dk")})
    for (double number : tensor.data)
      EXPECT_TRUE(std::isfinite(number)) << number;
}

} // namespace
