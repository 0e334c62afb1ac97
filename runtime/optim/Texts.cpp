// See Texts.h.
#include "runtime/optim/Texts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <vector>

namespace kiln::optim {

namespace {

std::string listType(DType dtype) {
  return fmt::format("tensor<?x{}>", name(dtype));
}
std::string listArgument(const char* what, DType dtype) {
  return fmt::format("{}: {} {{kiln.list}}", what, listType(dtype));
}
std::string numberArgument(const std::string& what) {
  return what + ": tensor<f32>";
}

/// A function from its parts; `results` are values, `resultTypes` may carry attributes.
struct Function {
  std::vector<std::string> arguments, resultTypes, results, resultValueTypes;
  std::string body;

  void addResult(const std::string& value, const std::string& type, bool isList) {
    results.push_back(value);
    resultValueTypes.push_back(type);
    resultTypes.push_back(isList ? type + " {kiln.list}" : type);
  }
  std::string text(const char* name) const {
    return fmt::format("func.func @{}({}) -> ({}) {{\n{}  return {} : {}\n}}\n", name,
                       fmt::join(arguments, ", "), fmt::join(resultTypes, ", "), body,
                       fmt::join(results, ", "), fmt::join(resultValueTypes, ", "));
  }
};

constexpr const char* kNumber = "tensor<f32>";

} // namespace

std::string NormText::text() const {
  Function f;
  const std::string list = listType(grad);
  f.arguments = {listArgument("%g", grad)};
  const char* element = "%g";
  if (grad != DType::f32) {
    element = "%wide";
    f.body += fmt::format("  %wide = arith.extf %g : {} to tensor<?xf32>\n", list);
  }
  f.body += fmt::format("  %square = arith.mulf {0}, {0} : tensor<?xf32>\n"
                        "  %own = kiln.reduce sum %square dims [0] : tensor<?xf32> -> {1}\n",
                        element, kNumber);
  std::string sum = "%own";
  if (!first) {
    f.arguments.push_back(numberArgument("%before"));
    f.body += "  %sum = arith.addf %before, %own : tensor<f32>\n";
    sum = "%sum";
  }
  f.addResult(sum, kNumber, false);
  if (!last)
    return f.text("square_sum");

  // As torch's clip_grad_norm_: max_norm / (norm + 1e-6), at most 1; of gradients without the
  // scale of the loss.
  f.arguments.push_back(numberArgument("%max_norm"));
  f.body += fmt::format("  %root = math.sqrt {} : tensor<f32>\n", sum);
  if (unscales) {
    f.arguments.push_back(numberArgument("%unscale"));
    f.body += "  %norm = arith.mulf %root, %unscale : tensor<f32>\n";
  }
  const char* norm = unscales ? "%norm" : "%root";
  f.body += fmt::format("  %tiny = arith.constant dense<1.0e-6> : tensor<f32>\n"
                        "  %one = arith.constant dense<1.0> : tensor<f32>\n"
                        "  %above = arith.addf {}, %tiny : tensor<f32>\n"
                        "  %ratio = arith.divf %max_norm, %above : tensor<f32>\n"
                        "  %clip = arith.minimumf %ratio, %one : tensor<f32>\n",
                        norm);
  if (unscales)
    f.body += "  %factor = arith.mulf %clip, %unscale : tensor<f32>\n";
  f.addResult(norm, kNumber, false);
  f.addResult(unscales ? "%factor" : "%clip", kNumber, false);
  for (int i = 0; i < counters; ++i) {
    f.arguments.push_back(numberArgument(fmt::format("%count{}", i)));
    f.body += fmt::format("  %next{0} = arith.addf %count{0}, %one : tensor<f32>\n", i);
    f.addResult(fmt::format("%next{}", i), kNumber, false);
  }
  return f.text("norm");
}

std::string UpdateText::text() const {
  Function f;
  const std::string f32 = listType(DType::f32);
  f.arguments = {listArgument("%p", DType::f32), listArgument("%g", grad),
                 listArgument("%m", DType::f32), listArgument("%v", DType::f32)};
  if (emaDecay > 0)
    f.arguments.push_back(listArgument("%ema", DType::f32));
  for (const char* number : {"%lr", "%count", "%scale"})
    f.arguments.push_back(numberArgument(number));
  f.addResult("%p1", f32, true);
  f.addResult("%m1", f32, true);
  f.addResult("%v1", f32, true);
  if (copy)
    f.addResult("%copy", listType(*copy), true);
  if (emaDecay > 0)
    f.addResult("%ema1", f32, true);
  const auto lists = fmt::format("{}", fmt::join(f.results, ", "));
  const auto listTypes = fmt::format("{}", fmt::join(f.resultValueTypes, ", "));
  if (!counted)
    f.body += "  %one = arith.constant dense<1.0> : tensor<f32>\n"
              "  %step = arith.addf %count, %one : tensor<f32>\n";
  f.body += fmt::format(
      "  {} = kiln.adamw %p, %g, %m, %v, %lr, {}, %scale{} {{beta1 = {:.17e}, beta2 = {:.17e}, "
      "eps = {:.17e}, weight_decay = {:.17e}{}}}\n"
      "      : ({}, {}, {}, {}, tensor<f32>, tensor<f32>, tensor<f32>{}) -> ({})\n",
      lists, counted ? "%count" : "%step", emaDecay > 0 ? ", %ema" : "", beta1, beta2, eps, decay,
      emaDecay > 0 ? fmt::format(", ema_decay = {:.17e}", emaDecay) : "", f32, listType(grad), f32,
      f32, emaDecay > 0 ? ", " + f32 : "", listTypes);
  if (advances)
    f.addResult("%step", kNumber, false);
  return f.text("adamw");
}

} // namespace kiln::optim
