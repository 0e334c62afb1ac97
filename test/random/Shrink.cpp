// Makes a function that fails smaller, one change after another, as long as it still fails.
#include "test/random/Check.h"

#include <algorithm>
#include <functional>

namespace kiln::test {
namespace {

using Change = std::function<void(Function&)>;

/// Whoever read the step reads the other one, which comes before it.
void bypass(Function& function, std::size_t step, std::size_t by) {
  for (Step& reader : function.steps)
    std::ranges::replace(reader.operands, step, by);
  for (Function::Result& result : function.results)
    if (result.step == step)
      result.step = by;
}

/// The largest cuts first.
std::vector<Change> changesOf(const Function& function) {
  std::vector<Change> changes;
  if (function.schedules != 0)
    changes.push_back([](Function& f) { f.schedules = 0; });
  if (function.backward)
    changes.push_back([](Function& f) { f.backward = false; });
  if (function.groups > 0)
    changes.push_back([](Function& f) { f.groups = 0; });
  for (std::size_t i = 0; i < function.results.size() && function.results.size() > 1; ++i)
    changes.push_back([i](Function& f) { f.results.erase(f.results.begin() + std::ptrdiff_t(i)); });
  const std::vector<bool> live = liveSteps(function);
  for (std::size_t i = function.steps.size(); i-- > 0;) {
    if (!live[i])
      continue;
    for (std::size_t by = 0; by < i && function.steps[i].form; ++by)
      if (live[by] && function.steps[by].kind == function.steps[i].kind)
        changes.push_back([i, by](Function& f) { bypass(f, i, by); });
    if (!function.steps[i].form && function.steps[i].dtype != "f32" &&
        function.steps[i].kind != Kind::mask)
      changes.push_back([i](Function& f) { f.steps[i].dtype = "f32"; });
  }
  for (std::size_t i = 0; i < function.results.size(); ++i)
    if (function.results[i].dtype != "f32")
      changes.push_back([i](Function& f) { f.results[i].dtype = "f32"; });
  for (std::int64_t rows : {std::int64_t{1}, function.rows / 2, function.rows - 1})
    if (rows >= 1 && rows < function.rows)
      changes.push_back([rows](Function& f) { f.rows = rows; });
  for (std::int64_t width : {std::int64_t{1}, function.width / 2, function.width - 1})
    if (width >= 1 && width < function.width)
      changes.push_back([width](Function& f) { f.width = width; });
  return changes;
}

/// Whether it was refused; else it ran, and went wrong.
bool isRefused(const std::string& problems) {
  return problems.find("error: ") != std::string::npos;
}

} // namespace

Function shrink(const Function& function, Where where, int attempts) {
  Function smallest = function;
  const bool refused = isRefused(problemsOf(function, where));
  for (bool changed = true; changed;) {
    changed = false;
    for (const Change& change : changesOf(smallest)) {
      if (attempts-- <= 0)
        return smallest;
      Function smaller = smallest;
      change(smaller);
      const std::string problems = problemsOf(smaller, where);
      if (problems.empty() || isRefused(problems) != refused)
        continue;
      smallest = std::move(smaller);
      changed = true;
      break;
    }
  }
  return smallest;
}

} // namespace kiln::test
