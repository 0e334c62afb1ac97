// See Texts.h.
#include "runtime/optim/Texts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kiln::optim {

namespace {

constexpr const char* kNumber = "tensor<f32>";

std::string listType(DType dtype) {
  return fmt::format("tensor<?x{}>", name(dtype));
}

/// The text as it grows. Values of part i end in its number.
class Writer {
 public:
  explicit Writer(const StepText& step) : step(step) {}

  std::string text() {
    addArguments();
    if (step.clips)
      addNorm();
    for (int i = 0; i < step.counters; ++i)
      body += fmt::format("  %next{0} = arith.addf %count{0}, %one : {1}\n", i, kNumber);
    for (std::size_t i = 0; i < step.parts.size(); ++i)
      addUpdate(i);
    if (step.clips)
      addResult(step.unscales ? "%norm" : "%root", kNumber, "");
    for (int i = 0; i < step.counters; ++i)
      addResult(fmt::format("%next{}", i), kNumber, "");
    return fmt::format("func.func @adamw({}) -> ({}) {{\n  %one = arith.constant dense<1.0> : {}\n"
                       "{}  return {} : {}\n}}\n",
                       fmt::join(arguments, ", "), fmt::join(resultTypes, ", "), kNumber, body,
                       fmt::join(results, ", "), fmt::join(resultValueTypes, ", "));
  }

 private:
  void addResult(const std::string& value, const std::string& type, const std::string& attribute) {
    results.push_back(value);
    resultValueTypes.push_back(type);
    resultTypes.push_back(type + attribute);
  }
  static std::string attributeOf(std::size_t part) {
    return fmt::format(" {{kiln.list = {}}}", part);
  }

  void addArguments() {
    for (std::size_t i = 0; i < step.parts.size(); ++i) {
      auto add = [&](const char* what, DType dtype) {
        arguments.push_back(fmt::format("%{}{}: {}{}", what, i, listType(dtype), attributeOf(i)));
      };
      add("p", DType::f32);
      add("g", step.parts[i].grad);
      add("m", DType::f32);
      add("v", DType::f32);
      if (step.emaDecay > 0)
        add("ema", DType::f32);
    }
    auto add = [&](const std::string& what) {
      arguments.push_back(fmt::format("%{}: {}", what, kNumber));
    };
    if (step.clips)
      add("max_norm");
    if (step.unscales)
      add("unscale");
    for (int i = 0; i < step.rates; ++i)
      add(fmt::format("lr{}", i));
    for (int i = 0; i < step.counters; ++i)
      add(fmt::format("count{}", i));
  }

  /// As torch's clip_grad_norm_: max_norm / (norm + 1e-6), at most 1; of gradients without the
  /// scale of the loss.
  void addNorm() {
    std::string sum;
    for (std::size_t i = 0; i < step.parts.size(); ++i) {
      std::string element = fmt::format("%g{}", i);
      if (step.parts[i].grad != DType::f32) {
        body += fmt::format("  %wide{0} = arith.extf %g{0} : {1} to tensor<?xf32>\n", i,
                            listType(step.parts[i].grad));
        element = fmt::format("%wide{}", i);
      }
      body +=
          fmt::format("  %square{0} = arith.mulf {1}, {1} : tensor<?xf32>\n"
                      "  %own{0} = kiln.reduce sum %square{0} dims [0] : tensor<?xf32> -> {2}\n",
                      i, element, kNumber);
      if (i > 0)
        body += fmt::format("  %sum{0} = arith.addf {1}, %own{0} : {2}\n", i, sum, kNumber);
      sum = fmt::format("%{}{}", i > 0 ? "sum" : "own", i);
    }
    body += fmt::format("  %root = math.sqrt {} : {}\n", sum, kNumber);
    if (step.unscales)
      body += "  %norm = arith.mulf %root, %unscale : tensor<f32>\n";
    body += fmt::format("  %tiny = arith.constant dense<1.0e-6> : tensor<f32>\n"
                        "  %above = arith.addf {}, %tiny : tensor<f32>\n"
                        "  %ratio = arith.divf %max_norm, %above : tensor<f32>\n"
                        "  %clip = arith.minimumf %ratio, %one : tensor<f32>\n",
                        step.unscales ? "%norm" : "%root");
    if (step.unscales)
      body += "  %factor = arith.mulf %clip, %unscale : tensor<f32>\n";
  }
  const char* scale() const {
    if (step.clips)
      return step.unscales ? "%factor" : "%clip";
    return step.unscales ? "%unscale" : "%one";
  }

  void addUpdate(std::size_t i) {
    const StepText::Part& part = step.parts[i];
    const std::size_t before = results.size();
    const std::string f32 = listType(DType::f32);
    auto add = [&](const char* what, const std::string& type) {
      addResult(fmt::format("%new_{}{}", what, i), type, attributeOf(i));
    };
    for (const char* what : {"p", "m", "v"})
      add(what, f32);
    if (part.copy)
      add("copy", listType(*part.copy));
    const bool averages = step.emaDecay > 0;
    if (averages)
      add("ema", f32);
    const auto ownResults = std::ptrdiff_t(before);
    body += fmt::format("  {0} = kiln.adamw %p{1}, %g{1}, %m{1}, %v{1}, %lr{2}, %next{3}, {4}{5} ",
                        fmt::join(results.begin() + ownResults, results.end(), ", "), i, part.rate,
                        part.counter, scale(), averages ? fmt::format(", %ema{}", i) : "");
    body += fmt::format(
        "{{beta1 = {:.17e}, beta2 = {:.17e}, eps = {:.17e}, weight_decay = {:.17e}{}}}\n",
        part.beta1, part.beta2, part.eps, part.decay,
        averages ? fmt::format(", ema_decay = {:.17e}", step.emaDecay) : "");
    body +=
        fmt::format("      : ({0}, {1}, {0}, {0}, {2}, {2}, {2}{3}) -> ({4})\n", f32,
                    listType(part.grad), kNumber, averages ? ", " + f32 : "",
                    fmt::join(resultValueTypes.begin() + ownResults, resultValueTypes.end(), ", "));
  }

  const StepText& step;
  std::vector<std::string> arguments, resultTypes, results, resultValueTypes;
  std::string body;
};

} // namespace

std::string StepText::text() const {
  return Writer(*this).text();
}

} // namespace kiln::optim
