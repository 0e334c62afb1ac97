// See RandomProgram.h.
#include "test/torch/RandomProgram.h"
#include "test/torch/AutocastInFp32.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

namespace kiln::test {

using at::Tensor;

Tensors RandomProgram::run(const Tensors& given, const Tensors& weights) const {
  Tensors values = given;
  values.insert(values.end(), weights.begin(), weights.end());
  for (const Step& step : steps) {
    Tensors operands;
    for (const std::size_t i : step.operands)
      operands.push_back(values[i]);
    values.push_back(step.apply(operands));
  }
  Tensors found;
  for (const std::size_t i : results)
    found.push_back(values[i]);
  return found;
}

std::string RandomProgram::text() const {
  std::string text =
      fmt::format("{} inputs, {} leaves, {}\n", inputs.size(), leaves.size(), c10::toString(dtype));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::mt19937_64 any;
    const Tensor sample = inputs[i](std::vector<std::int64_t>(leading, 3), any);
    text += fmt::format("v{}: [{}] strides [{}]\n", i, fmt::join(sample.sizes(), ", "),
                        fmt::join(sample.strides(), ", "));
  }
  for (std::size_t i = 0; i < leaves.size(); ++i)
    text += fmt::format("v{}: leaf [{}]\n", inputs.size() + i, fmt::join(leaves[i].sizes(), ", "));
  for (std::size_t i = 0; i < steps.size(); ++i)
    text += fmt::format("v{} = {}(v{})\n", inputs.size() + leaves.size() + i, steps[i].text,
                        fmt::join(steps[i].operands, ", v"));
  return text + fmt::format("return v{}\n", fmt::join(results, ", v"));
}

RandomProgram RandomProgram::only(std::size_t result) const {
  RandomProgram part = *this;
  part.results = {results[result]};
  const std::size_t first = inputs.size() + leaves.size();
  std::vector<bool> needed(first + steps.size());
  needed[results[result]] = true;
  std::vector<std::size_t> place(first + steps.size());
  for (std::size_t i = 0; i < first; ++i)
    place[i] = i;
  for (std::size_t i = steps.size(); i-- > 0;)
    if (needed[first + i])
      for (const std::size_t operand : steps[i].operands)
        needed[operand] = true;
  part.steps.clear();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!needed[first + i])
      continue;
    place[first + i] = first + part.steps.size();
    part.steps.push_back(steps[i]);
    for (std::size_t& operand : part.steps.back().operands)
      operand = place[operand];
  }
  part.results[0] = place[part.results[0]];
  return part;
}

namespace {

struct Op {
  const char* text;
  std::size_t operands;
  std::function<Tensor(const Tensors&)> apply;
  bool isSmooth = true; // else half types round across what it decides
};

const std::vector<Op>& ops() {
  using T = const Tensors&;
  static const std::vector<Op> all = {
      {"add", 2, [](T t) { return t[0] + t[1]; }},
      {"sub, 0.5 times", 2, [](T t) { return at::sub(t[0], t[1], 0.5); }},
      {"mul", 2, [](T t) { return t[0] * t[1]; }},
      {"a / (1 + |b|)", 2, [](T t) { return t[0] / (1 + t[1].abs()); }, false},
      {"a / (1 + b^2)", 2, [](T t) { return t[0] / (1 + t[1].square()); }},
      {"maximum", 2, [](T t) { return at::maximum(t[0], t[1]); }, false},
      {"minimum", 2, [](T t) { return at::minimum(t[0], t[1]); }, false},
      {"where b > 0", 2, [](T t) { return at::where(t[1] > 0, t[0], t[1] * 0.25); }, false},
      {"masked_fill", 2, [](T t) { return t[0].masked_fill(t[1] < -0.3, 0.125); }, false},
      {"addcmul", 3, [](T t) { return at::addcmul(t[0], t[1], t[2], 0.3); }},
      {"lerp", 3, [](T t) { return at::lerp(t[0], t[1], t[2].sigmoid()); }},
      {"tanh", 1, [](T t) { return t[0].tanh(); }},
      {"sigmoid", 1, [](T t) { return t[0].sigmoid(); }},
      {"silu", 1, [](T t) { return at::silu(t[0]); }},
      {"gelu", 1, [](T t) { return at::gelu(t[0]); }},
      {"gelu, tanh", 1, [](T t) { return at::gelu(t[0], "tanh"); }},
      {"relu", 1, [](T t) { return t[0].relu(); }, false},
      {"leaky_relu", 1, [](T t) { return at::leaky_relu(t[0], 0.1); }, false},
      {"clamp", 1, [](T t) { return t[0].clamp(-0.7, 0.9); }, false},
      {"exp(-x^2)", 1, [](T t) { return (-t[0].square()).exp(); }},
      {"log(1 + x^2)", 1, [](T t) { return (1 + t[0].square()).log(); }},
      {"rsqrt(1 + x^2)", 1, [](T t) { return (t[0] * t[0] + 1).rsqrt(); }},
      {"pow 3", 1, [](T t) { return t[0].pow(3); }},
      {"1 - x", 1, [](T t) { return 1 - t[0]; }},
      {"erf", 1, [](T t) { return t[0].erf(); }},
      {"abs", 1, [](T t) { return t[0].abs(); }, false},
      {"layer_norm", 1, [](T t) { return at::layer_norm(t[0], {t[0].size(-1)}); }},
      {"rms_norm", 1, [](T t) { return at::rms_norm(t[0], {t[0].size(-1)}, {}, 1e-5); }},
      {"softmax", 1, [](T t) { return t[0].softmax(-1); }},
      {"log_softmax", 1, [](T t) { return t[0].log_softmax(-1); }},
      {"sum", 1, [](T t) { return t[0].sum(-1, true); }},
      {"mean", 1, [](T t) { return t[0].mean(-1, true); }},
      {"sum, unsqueezed", 1, [](T t) { return t[0].sum({-1}).unsqueeze(-1); }},
      {"amax", 1, [](T t) { return t[0].amax(-1, true); }, false},
      {"mean of squares", 1, [](T t) { return t[0].square().mean(-1, true); }},
      {"cumsum", 1, [](T t) { return t[0].cumsum(-1) * 0.1; }},
      {"flip", 1, [](T t) { return t[0].flip({-1}); }},
      {"reshape and back", 1,
       [](T t) { return t[0].reshape({-1, t[0].size(-1)}).tanh().view(t[0].sizes()); }},
      {"transpose and back", 1,
       [](T t) {
         return t[0].dim() < 2 ? t[0] : t[0].transpose(0, -1).sigmoid().transpose(0, -1);
       }},
      {"halves swapped", 1,
       [](T t) {
         const std::int64_t w = t[0].size(-1);
         return at::cat({t[0].slice(-1, w / 2, w), t[0].slice(-1, 0, w / 2)}, -1);
       }},
      {"half times half", 1,
       [](T t) {
         const std::int64_t w = t[0].size(-1) / 2;
         const Tensor product = t[0].slice(-1, 0, w) * t[0].slice(-1, w, 2 * w).sigmoid();
         return at::cat({product, t[0].slice(-1, w)}, -1);
       }},
      {"add_ to a copy", 2, [](T t) { return (t[0] * 1).add_(t[1], 0.5); }},
      {"mul_ of a copy", 2, [](T t) { return (t[0] + 0.5).mul_(t[1]); }},
      {"first row for all", 1, [](T t) { return t[0].narrow(0, 0, 1).expand_as(t[0]) * 0.5; }},
      {"mean of rows", 1, [](T t) { return t[0].mean(std::vector<std::int64_t>{0}, true); }},
      {"contiguous", 1, [](T t) { return t[0].contiguous(); }},
      {"detached", 1, [](T t) { return t[0].detach() * 0.5; }},
      {"dropout of none", 1, [](T t) { return at::dropout(t[0], 0.5, /*train=*/false); }},
      {"through fp32", 1, [](T t) {
         return t[0].scalar_type() == at::kDouble
                    ? t[0].tanh()
                    : t[0].to(at::kFloat).tanh().to(t[0].scalar_type());
       }}};
  return all;
}

std::int64_t from(std::int64_t first, std::int64_t last, std::mt19937_64& random) {
  return std::uniform_int_distribution<std::int64_t>(first, last)(random);
}

Tensor numbers(at::IntArrayRef sizes, at::ScalarType dtype, std::mt19937_64& random) {
  Tensor made = at::empty(sizes);
  std::normal_distribution<float> normal(0.05F, 0.8F);
  std::generate_n(made.data_ptr<float>(), made.numel(), [&] { return normal(random); });
  return made.to(dtype);
}

/// Dense, transposed, of wider rows, the same for all rows, a row, or a number a row.
RandomProgram::Make makeInput(std::int64_t kind, std::int64_t width, at::ScalarType dtype) {
  return [=](at::IntArrayRef dims, std::mt19937_64& random) {
    std::vector<std::int64_t> sizes = dims.vec();
    sizes.push_back(kind == 5 ? 1 : kind == 2 ? width + 3 : width);
    if (kind == 4)
      return numbers({width}, dtype, random);
    if (kind == 3) {
      const std::vector<std::int64_t> all = sizes;
      sizes[0] = 1;
      return numbers(sizes, dtype, random).expand(all);
    }
    if (kind == 1) {
      std::swap(sizes[0], sizes.back());
      return numbers(sizes, dtype, random).transpose(0, -1);
    }
    const Tensor made = numbers(sizes, dtype, random);
    return kind == 2 ? made.slice(-1, 2, 2 + width) : made;
  };
}

class Drawer {
 public:
  explicit Drawer(std::uint64_t seed) : random(seed) {}
  RandomProgram draw();

 private:
  std::int64_t from(std::int64_t first, std::int64_t last) {
    return test::from(first, last, random);
  }
  void addLeaves(std::int64_t width);
  bool addStep();

  std::mt19937_64 random;
  RandomProgram program;
  Tensors sample; // values for some leading dimensions
};

void Drawer::addLeaves(std::int64_t width) {
  for (const auto& sizes : {std::vector<std::int64_t>{width}, std::vector<std::int64_t>{width},
                            std::vector<std::int64_t>{width, width}}) {
    const double scale = sizes.size() == 2 ? 1 / std::sqrt(double(width)) : 1;
    program.leaves.push_back((numbers(sizes, at::kFloat, random) * scale).to(program.dtype));
  }
}

/// Whether the drawn operation can be applied to what was drawn for it.
bool Drawer::addStep() {
  const std::size_t inputs = program.inputs.size(), leaves = program.leaves.size();
  RandomProgram::Step step;
  const std::size_t last = sample.size() - 1;
  const auto operand = [&] { // what came last is read more often
    const std::size_t i = from(0, 2) == 0 ? last : std::size_t(from(0, std::int64_t(last)));
    return i == inputs + leaves - 1 ? std::size_t(0) : i; // the matrix is for products
  };
  const std::int64_t kind = from(0, 11);
  if (kind == 0) {
    step = {"linear", {operand(), inputs + 2, inputs}, [](const Tensors& t) {
              return at::linear(t[0], t[1], t[2]);
            }};
  } else if (kind == 1) {
    step = {"layer_norm, weighted", {operand(), inputs, inputs + 1}, [](const Tensors& t) {
              return at::layer_norm(t[0], {t[0].size(-1)}, t[1], t[2]);
            }};
  } else if (kind == 2) {
    step = {"rms_norm, weighted", {operand(), inputs}, [](const Tensors& t) {
              return at::rms_norm(t[0], {t[0].size(-1)}, t[1], 1e-5);
            }};
  } else {
    const Op& op = ops()[std::size_t(from(0, std::int64_t(ops().size()) - 1))];
    if (!op.isSmooth && !program.isExact())
      return false;
    step = {op.text, {}, op.apply};
    for (std::size_t i = 0; i < op.operands; ++i)
      step.operands.push_back(operand());
  }
  Tensors operands;
  for (const std::size_t i : step.operands)
    operands.push_back(sample[i]);
  try {
    std::optional<Autocast> autocast; // under which some take less
    if (program.autocast)
      autocast.emplace(at::kCPU);
    const Tensor made = step.apply(operands);
    if (made.numel() > 50'000 || made.dim() > 5 || !made.isfinite().all().item<bool>() ||
        made.abs().max().item<double>() > 50)
      return false;
    sample.push_back(made);
  } catch (const c10::Error&) { // shapes or dtypes that do not fit
    return false;
  }
  program.steps.push_back(std::move(step));
  return true;
}

RandomProgram Drawer::draw() {
  constexpr std::int64_t widths[] = {1, 2, 3, 5, 7, 8, 16, 31, 33, 48, 64, 100, 127, 256, 1000};
  constexpr at::ScalarType dtypes[] = {at::kFloat, at::kFloat, at::kFloat, at::kBFloat16,
                                       at::kHalf};
  program.dtype = dtypes[from(0, std::ssize(dtypes) - 1)];
  // A norm of few numbers may make anything of the roundings of half types.
  program.autocast = program.dtype == at::kFloat && from(0, 4) == 0;
  const std::int64_t narrowest = program.isExact() ? 0 : 6;
  const std::int64_t width = widths[from(narrowest, std::ssize(widths) - 1)];
  program.leading = std::size_t(from(1, 3));
  const std::int64_t count = from(1, 4), length = from(2, 14);
  for (std::int64_t i = 0; i < count; ++i)
    program.inputs.push_back(makeInput(i == 0 ? 0 : from(0, 7), width, program.dtype));
  sample = drawInputs(program, random, 2); // with 1, what fits might fit nothing else
  addLeaves(width);
  sample.insert(sample.end(), program.leaves.begin(), program.leaves.end());
  for (std::int64_t tries = 0; tries < 10 * length && std::ssize(program.steps) < length; ++tries)
    addStep();
  const auto first = std::int64_t(sample.size() - program.steps.size()),
             last = std::int64_t(sample.size()) - 1;
  program.results = {std::size_t(last)};
  for (std::int64_t i = from(0, 2); i > 0 && first <= last; --i)
    program.results.push_back(std::size_t(from(first, last)));
  return program;
}

} // namespace

RandomProgram drawProgram(std::uint64_t seed) {
  return Drawer(seed).draw();
}

Tensors drawInputs(const RandomProgram& program, std::mt19937_64& random, std::int64_t least) {
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < program.leading; ++i)
    dims.push_back(from(least, 5, random));
  Tensors made;
  for (const RandomProgram::Make& make : program.inputs)
    made.push_back(make(dims, random));
  return made;
}

} // namespace kiln::test
