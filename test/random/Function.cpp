// Drawing a function and printing it.
#include "test/random/Function.h"

#include "test/random/Draws.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

namespace kiln::test {
namespace {

constexpr double largestValue = 2000;    // so that fp16 results, and gradients of a few, are finite
constexpr std::int64_t elements = 24000; // of one tensor: a function takes a fraction of a second

class Drawing : Draws {
 public:
  explicit Drawing(std::uint64_t seed) : Draws(seed * 0x9e3779b97f4a7c15U + 1) {
    made.seed = seed;
    made.backward = chance(60);
    made.schedules = chance(50) ? random() | 1 : 0;
    drawShape();
    drawArguments();
    drawSteps();
    drawResults();
  }
  Function made;

 private:
  void drawShape() {
    const std::int64_t usual[] = {64, 96, 128, 256, 384, 512, 640, 768, 1000, 1024, 1280, 2048};
    const std::int64_t odd[] = {127, 129, 257, 333, 500, 771, 777, 1001, 1025, 1999, 2000, 3333};
    const std::int64_t large[] = {4095, 4096, 5000, 8192, 10000};
    const std::uint64_t which = below(100);
    made.width = which < 20   ? 1 + static_cast<std::int64_t>(below(40))
                 : which < 60 ? oneOf(usual)
                 : which < 92 ? oneOf(odd)
                              : oneOf(large);
    const auto most = static_cast<std::uint64_t>(std::max<std::int64_t>(2, elements / made.width));
    made.rows = 1 + static_cast<std::int64_t>(below(std::min<std::uint64_t>(most, 61)));
    if (chance(2))
      made.rows = 0;
    if (chance(20)) {
      made.groups = 1 + static_cast<std::int64_t>(below(4));
      made.rows = (made.rows + made.groups - 1) / made.groups;
    }
  }

  void addArgument(Kind kind) {
    const char* dtypes[] = {"f32", "f32", "bf16", "bf16", "f16"};
    Step step;
    step.kind = kind;
    step.dtype = kind == Kind::mask ? "i1" : kind == Kind::scalar ? "f32" : oneOf(dtypes);
    step.varies = kind == Kind::rows;
    made.steps.push_back(step);
  }
  void drawArguments() {
    addArgument(Kind::rows);
    for (std::uint64_t more = below(12); more > 0; --more) {
      const std::uint64_t which = below(100);
      addArgument(which < 50   ? Kind::rows
                  : which < 78 ? Kind::columns
                  : which < 86 ? Kind::statistic
                  : which < 92 ? Kind::scalar
                               : Kind::mask);
    }
  }

  bool mayRead(const Form& form, const Step& step) const {
    if (step.form && (form.of == Form::Of::arguments ||
                      (form.of == Form::Of::argumentsIfBackward && made.backward)))
      return false;
    return true;
  }
  /// An earlier value, of the last ones most often, so that steps are chained.
  std::optional<std::size_t> drawOperand(const Form& form, Kind kind) {
    std::vector<std::size_t> fit;
    for (std::size_t i = 0; i < made.steps.size(); ++i)
      if (made.steps[i].kind == kind && mayRead(form, made.steps[i]))
        fit.push_back(i);
    if (fit.empty())
      return std::nullopt;
    std::size_t at = fit.size() - 1;
    while (at > 0 && chance(40))
      --at;
    return chance(25) ? fit[below(fit.size())] : fit[at];
  }
  bool addStep(const Form& form) {
    Step step;
    step.form = &form;
    step.kind = form.result;
    std::vector<double> sizes;
    for (Kind kind : form.operands) {
      const auto operand = drawOperand(form, kind);
      if (!operand)
        return false;
      step.operands.push_back(*operand);
      sizes.push_back(made.steps[*operand].size);
      step.varies |= made.steps[*operand].varies && made.steps[*operand].kind == Kind::rows;
    }
    const bool repeats =
        std::string_view(form.name) == "along_rows" || std::string_view(form.name) == "everywhere";
    step.varies &= !repeats && form.result == Kind::rows;
    // On what is nearly the same all along a row a norm magnifies rounding.
    if (form.varies && (!made.steps[step.operands[0]].varies || sizes[0] > 100 || made.width < 3))
      return false;
    step.size = form.size(sizes, static_cast<double>(std::max(made.width, made.rows)));
    if (step.size > largestValue)
      return false;
    if (std::string_view(form.name) == "sub" && step.operands[0] == step.operands[1])
      return false; // zeros: what is computed of them is rounded alike all along a row
    made.steps.push_back(std::move(step));
    return true;
  }
  void drawSteps() {
    const std::uint64_t reductions = 1 + below(8);
    const std::uint64_t count = 2 + reductions + below(16);
    std::uint64_t reduced = 0;
    for (std::uint64_t tries = 0, added = 0; added < count && tries < 400; ++tries) {
      const Form& form = forms()[below(forms().size())];
      if (form.reduces && (reduced >= reductions || !chance(70)))
        continue;
      if (!addStep(form))
        continue;
      ++added;
      reduced += form.reduces;
    }
  }

  /// What nothing reads, the last ones first.
  void drawResults() {
    std::vector<bool> read(made.steps.size());
    for (const Step& step : made.steps)
      for (std::size_t operand : step.operands)
        read[operand] = true;
    const std::uint64_t most = 1 + below(5);
    for (std::size_t i = made.steps.size(); i-- > 0 && made.results.size() < most;) {
      const Step& step = made.steps[i];
      if (!step.form || step.kind == Kind::mask || (read[i] && !chance(10)))
        continue;
      const char* dtypes[] = {"f32", "f32", "bf16", "f16"};
      made.results.push_back({i, step.kind == Kind::rows ? oneOf(dtypes) : "f32"});
    }
    if (made.results.empty())
      made.results.push_back({made.steps.size() - 1, "f32"});
  }
};

std::string shapeOf(const Function& function, Kind kind, const std::string& dtype) {
  const std::string lead =
      function.groups > 0 ? fmt::format("?x{}x", function.groups) : std::string("?x");
  switch (kind) {
  case Kind::rows:
  case Kind::mask:
    return fmt::format("tensor<{}{}x{}>", lead, function.width, dtype);
  case Kind::statistic:
    return fmt::format("tensor<{}{}>", lead, dtype);
  case Kind::columns:
    return fmt::format("tensor<{}x{}>", function.width, dtype);
  case Kind::scalar:
    return fmt::format("tensor<{}>", dtype);
  }
  return {};
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

std::string nameOf(const Function& function, std::size_t step) {
  const bool widened = !function.steps[step].form && function.steps[step].dtype != "f32" &&
                       function.steps[step].kind != Kind::mask;
  return fmt::format("%{}{}{}", function.steps[step].form ? "v" : "x", step, widened ? "_f" : "");
}

std::string linesOf(const Function& function, std::size_t step) {
  const Step& of = function.steps[step];
  std::string text = of.form->text;
  for (std::size_t i = 0; i < of.operands.size(); ++i)
    text = replaced(text, fmt::format("${}", i), nameOf(function, of.operands[i]));
  const int last = function.groups > 0 ? 2 : 1;
  const std::string lead = last == 2 ? "0, 1" : "0";
  const std::pair<const char*, std::string> words[] = {
      {"$last", fmt::format("{}", last)},
      {"$lead", lead},
      {"$all", fmt::format("{}, {}", lead, last)},
      {"$R", shapeOf(function, Kind::rows, "f32")},
      {"$B", shapeOf(function, Kind::rows, "bf16")},
      {"$I", shapeOf(function, Kind::rows, "i32")},
      {"$S", shapeOf(function, Kind::statistic, "f32")},
      {"$C", shapeOf(function, Kind::columns, "f32")},
      {"$O", "tensor<f32>"},
      {"$M", shapeOf(function, Kind::mask, "i1")},
      {"$r", nameOf(function, step)}};
  for (const auto& [what, with] : words)
    text = replaced(text, what, with);
  return text;
}

} // namespace

Function draw(std::uint64_t seed) {
  return Drawing(seed).made;
}

std::vector<bool> liveSteps(const Function& function) {
  std::vector<bool> live(function.steps.size());
  for (const Function::Result& result : function.results)
    live[result.step] = true;
  for (std::size_t i = live.size(); i-- > 0;)
    if (live[i])
      for (std::size_t operand : function.steps[i].operands)
        live[operand] = true;
  return live;
}

std::string textOf(const Function& function) {
  const std::vector<bool> live = liveSteps(function);
  std::vector<std::string> arguments, names, types;
  std::string body;
  for (std::size_t i = 0; i < live.size(); ++i) {
    const Step& step = function.steps[i];
    if (!live[i])
      continue;
    if (step.form) {
      body += linesOf(function, i);
      continue;
    }
    const std::string type = shapeOf(function, step.kind, step.dtype);
    arguments.push_back(fmt::format("%x{}: {}", i, type));
    if (std::string wide = nameOf(function, i); wide.ends_with("_f"))
      body += fmt::format("  {} = arith.extf %x{} : {} to {}\n", wide, i, type,
                          shapeOf(function, step.kind, "f32"));
  }
  if (body.find("%seed") != std::string::npos)
    for (const char* name : {"seed", "offset"})
      arguments.push_back(fmt::format("%{}: tensor<i64>", name));
  for (std::size_t i = 0; i < function.results.size(); ++i) {
    const Function::Result& result = function.results[i];
    const Kind kind = function.steps[result.step].kind;
    std::string name = nameOf(function, result.step);
    types.push_back(shapeOf(function, kind, result.dtype));
    if (result.dtype != "f32") {
      body += fmt::format("  %y{} = arith.truncf {} : {} to {}\n", i, name,
                          shapeOf(function, kind, "f32"), types.back());
      name = fmt::format("%y{}", i);
    }
    names.push_back(name);
  }
  return fmt::format("func.func @f({}) -> ({}) {{\n{}  return {} : {}\n}}\n",
                     fmt::join(arguments, ", "), fmt::join(types, ", "), body,
                     fmt::join(names, ", "), fmt::join(types, ", "));
}

} // namespace kiln::test
