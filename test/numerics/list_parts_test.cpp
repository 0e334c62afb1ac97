// Programs over lists in parts on the host target: AdamW's step for parameters that differ in
// dtypes and numbers of their group has the bits of programs of their own, in one launch; a norm
// over all parts, and a counter advanced in its place.
#include "test/numerics/Lists.h"
#include "test/numerics/Values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace kiln;
using namespace kiln::test;

namespace {

/// One kind of parameter: gradients of bf16, and a copy then, or of fp32.
struct Kind {
  bool isHalf;
  const char* decay;
};

/// AdamW's step of a part for each kind, with %next = %count + 1 as its number. With a norm, the
/// gradients are divided by it.
std::string stepText(const std::vector<Kind>& kinds, bool norms) {
  std::string arguments, types, results, resultTypes, squares, updates, sum;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const std::string n = std::to_string(i), list = " {kiln.list = " + n + "}";
    const std::string grad = kinds[i].isHalf ? "tensor<?xbf16>" : "tensor<?xf32>";
    arguments += "%p" + n + ": tensor<?xf32>" + list + ", %g" + n + ": " + grad + list + ", %m" +
                 n + ": tensor<?xf32>" + list + ", %v" + n + ": tensor<?xf32>" + list + ", ";
    std::string made = "%np" + n + ", %nm" + n + ", %nv" + n;
    std::string madeTypes = "tensor<?xf32>, tensor<?xf32>, tensor<?xf32>";
    for (int k = 0; k < 3; ++k)
      types += "tensor<?xf32>" + list + ", ";
    if (kinds[i].isHalf) {
      made += ", %copy" + n;
      madeTypes += ", tensor<?xbf16>";
      types += "tensor<?xbf16>" + list + ", ";
    }
    results += made + ", ";
    resultTypes += madeTypes + ", ";
    std::string wide = "%g" + n;
    if (kinds[i].isHalf) {
      wide = "%wide" + n;
      squares += "  " + wide + " = arith.extf %g" + n + " : tensor<?xbf16> to tensor<?xf32>\n";
    }
    squares += "  %square" + n + " = arith.mulf " + wide + ", " + wide +
               " : tensor<?xf32>\n  %own" + n + " = kiln.reduce sum %square" + n +
               " dims [0] : tensor<?xf32> -> tensor<f32>\n";
    if (i > 0)
      squares += "  %sum" + n + " = arith.addf " + sum + ", %own" + n + " : tensor<f32>\n";
    sum = (i > 0 ? "%sum" : "%own") + n;
    updates += "  " + made + " = kiln.adamw %p" + n + ", %g" + n + ", %m" + n + ", %v" + n +
               ", %lr, %next, " + (norms ? "%factor" : "%scale") +
               " {weight_decay = " + kinds[i].decay + "} : (tensor<?xf32>, " + grad +
               ", tensor<?xf32>, tensor<?xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (" +
               madeTypes + ")\n";
  }
  const std::string norm = squares + "  %norm = math.sqrt " + sum +
                           " : tensor<f32>\n  %factor = arith.divf %scale, %norm : tensor<f32>\n";
  return "func.func @step(" + arguments +
         "%lr: tensor<f32>, %count: tensor<f32>, %scale: tensor<f32>) -> (" + types +
         "tensor<f32>" + (norms ? ", tensor<f32>" : "") +
         ") {\n  %one = arith.constant dense<1.0> : tensor<f32>\n"
         "  %next = arith.addf %count, %one : tensor<f32>\n" +
         (norms ? norm : "") + updates + "  return " + results + "%next" +
         (norms ? ", %norm" : "") + " : " + resultTypes + "tensor<f32>" +
         (norms ? ", tensor<f32>" : "") + "\n}\n";
}

Program compiledStep(const std::string& text) {
  CompileOptions options;
  options.until = Stage::cuda;
  return Program::compile(Module::parse(text), options);
}

/// The parameters of one kind.
struct Part {
  Kind kind;
  Lengths lengths;
  List<float> p{lengths, -1.f}, g{lengths, -1.f}, m{lengths, -1.f}, v{lengths, -1.f};
  List<std::uint16_t> half{lengths, 0x7fc1}, copy{lengths, 0x7fc1};

  Part(Kind kind, const Lengths& lengths) : kind(kind), lengths(lengths) {
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < lengths.size(); ++i)
      for (std::int64_t k = 0; k < lengths[i]; ++k) {
        p[i][k] = normal(random);
        half[i][k] = static_cast<std::uint16_t>(0x3f00 + random() % 256); // 0.5 to 2
        g[i][k] = normal(random);
        m[i][k] = 0.1f * normal(random);
        v[i][k] = 0.01f * std::abs(normal(random));
      }
  }
  void addTo(std::vector<TensorList>& inputs, std::vector<TensorList>& outputs) {
    for (const TensorList& list :
         {p.buffers(), kind.isHalf ? half.buffers() : g.buffers(), m.buffers(), v.buffers()})
      inputs.push_back(list);
    for (const TensorList& list : {p.buffers(), m.buffers(), v.buffers()})
      outputs.push_back(list);
    if (kind.isHalf)
      outputs.push_back(copy.buffers());
  }
  double squares() {
    double sum = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i)
      for (std::int64_t k = 0; k < lengths[i]; ++k)
        sum += std::pow(kind.isHalf ? fromBf16(half[i][k]) : g[i][k], 2);
    return sum;
  }
  bool operator==(Part& other) {
    bool same = true;
    for (std::size_t i = 0; i < lengths.size(); ++i)
      same = same && std::ranges::equal(p[i], other.p[i]) && std::ranges::equal(m[i], other.m[i]) &&
             std::ranges::equal(v[i], other.v[i]) && std::ranges::equal(copy[i], other.copy[i]);
    return same;
  }
  bool guardsIntact() {
    return p.guardsIntact() && m.guardsIntact() && v.guardsIntact() && copy.guardsIntact();
  }
};

struct Numbers {
  float lr = 1e-2f, count = 2, scale = 0.5f, next = NAN, norm = NAN;
};

/// A step of these parts. With a norm the counter is advanced in its place.
Numbers step(const std::vector<Part*>& parts, bool norms, std::size_t launches) {
  std::vector<Kind> kinds;
  std::vector<TensorList> inputs, outputs;
  for (Part* part : parts) {
    kinds.push_back(part->kind);
    part->addTo(inputs, outputs);
  }
  const Program program = compiledStep(stepText(kinds, norms));
  EXPECT_EQ(program.launches(), launches);
  EXPECT_EQ(program.lists().parts(), static_cast<int>(parts.size()));
  const TensorLists lists(program.lists(), inputs, outputs);
  Numbers numbers;
  float* next = norms ? &numbers.count : &numbers.next;
  const Buffer given[] = {
      {&numbers.lr, {}, {}}, {&numbers.count, {}, {}}, {&numbers.scale, {}, {}}};
  std::vector<Buffer> results = {{next, {}, {}}};
  if (norms)
    results.push_back({&numbers.norm, {}, {}});
  program.runOnHost(lists.inputs(lists.table().data(), given), results);
  for (Part* part : parts)
    EXPECT_TRUE(part->guardsIntact());
  return numbers;
}

constexpr Kind kFull{false, "0.1"}, kHalf{true, "0.0"}, kDecayed{true, "0.2"};

TEST(ListParts, OneLaunchHasTheBitsOfThree) {
  const Lengths few = {3000, 0, 5, 1024}, none = {0};
  for (const Lengths& second : {few, none}) {
    Part a(kFull, kOdd), b(kHalf, second), c(kDecayed, few);
    EXPECT_EQ(step({&a, &b, &c}, false, 1).next, 3);
    for (auto [together, lengths] : {std::pair(&a, &kOdd), {&b, &second}, {&c, &few}}) {
      Part alone(together->kind, *lengths);
      EXPECT_EQ(step({&alone}, false, 1).next, 3);
      EXPECT_TRUE(*together == alone);
    }
  }
}

TEST(ListParts, NormOverAllPartsAndACounterInItsPlace) {
  Lengths many(40, 700); // several blocks of several chunks in each part
  many.push_back(20'001);
  Part a(kFull, many), b(kHalf, kOdd), c(kHalf, many);
  Part a2(kFull, many), b2(kHalf, kOdd), c2(kHalf, many);
  const double norm = std::sqrt(a.squares() + b.squares() + c.squares());
  const Numbers numbers = step({&a, &b, &c}, true, 2);
  EXPECT_NEAR(numbers.norm, norm, 1e-6 * norm);
  EXPECT_EQ(numbers.count, 3);
  const Numbers again = step({&a2, &b2, &c2}, true, 2);
  EXPECT_EQ(again.norm, numbers.norm) << "the order of summation is always the same";
  EXPECT_TRUE(a == a2 && b == b2 && c == c2);
  // The first step, by the formula: t = 3, g of each part divided by the norm of all.
  Part before(kFull, many);
  const double g = before.g[0][0] * 0.5 / norm, m = 0.9 * before.m[0][0] + 0.1 * g;
  const double v = 0.999 * before.v[0][0] + 0.001 * g * g;
  const double denominator = std::sqrt(v / (1 - std::pow(0.999, 3))) + 1e-8;
  const double p = before.p[0][0] * (1 - 1e-3) - 1e-2 / (1 - std::pow(0.9, 3)) * m / denominator;
  EXPECT_NEAR(a.p[0][0], p, 1e-6);
  EXPECT_NEAR(a.m[0][0], m, 1e-7);
}

TEST(ListParts, NothingButEmptyTensorsStillCounts) {
  for (const Lengths& lengths : {Lengths{0, 0}, Lengths{}}) {
    Part a(kFull, lengths), b(kHalf, lengths);
    EXPECT_EQ(step({&a, &b}, false, 1).next, 3);
    const Numbers numbers = step({&a, &b}, true, 2);
    EXPECT_EQ(numbers.norm, 0);
    EXPECT_EQ(numbers.count, 3);
  }
}

/// As many as there may be, of which each is a launch's part of one block.
TEST(ListParts, Sixteen) {
  std::vector<Part> together, alone;
  for (int i = 0; i < 16; ++i)
    for (auto* side : {&together, &alone})
      side->emplace_back(i % 2 ? kHalf : kFull, Lengths{i + 1, 2 * i});
  std::vector<Part*> all;
  for (Part& part : together)
    all.push_back(&part);
  EXPECT_EQ(step(all, false, 1).next, 3);
  for (int i : {0, 7, 15}) {
    step({&alone[i]}, false, 1);
    EXPECT_TRUE(together[i] == alone[i]) << i;
  }
}

} // namespace
