// Makes a function that fails smaller, one change after another, as long as it still fails.
#include "test/random/Check.h"

#include <algorithm>
#include <functional>

namespace kiln::test {
namespace {

template <class Drawn> using Changes = std::vector<std::function<void(Drawn&)>>;

/// Whoever read the step reads the other one, which comes before it.
void bypass(Function& function, std::size_t step, std::size_t by) {
  for (Step& reader : function.steps)
    std::ranges::replace(reader.operands, step, by);
  for (Function::Result& result : function.results)
    if (result.step == step)
      result.step = by;
}

/// The largest cuts first.
Changes<Function> changesOf(const Function& function) {
  Changes<Function> changes;
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

/// Smaller sizes of a member, if it has larger ones than `least`.
void addSmaller(Changes<Attention>& changes, const Attention& a, std::int64_t Attention::* size,
                std::int64_t least) {
  for (std::int64_t smaller : {least, a.*size / 2, a.*size - 1})
    if (smaller >= least && smaller < a.*size)
      changes.push_back([=](Attention& a) { a.*size = smaller; });
}

/// What hides places or scales them, one rule after another.
void addRules(Changes<Attention>& changes, const Attention& a) {
  const Attention plain;
  const auto add = [&](auto member) {
    if (a.*member != plain.*member)
      changes.push_back([=](Attention& a) { a.*member = plain.*member; });
  };
  add(&Attention::causal);
  add(&Attention::windowLeft);
  add(&Attention::windowRight);
  add(&Attention::softcap);
  add(&Attention::p);
  add(&Attention::queryStarts);
  for (auto member : {&Attention::bias, &Attention::mask}) {
    if (a.isTogether && member == &Attention::bias)
      continue; // has a gradient, and a place for each score
    if (!(a.*member).whole.empty())
      changes.push_back([=](Attention& a) { a.*member = {}; });
    for (std::size_t d = 0; d < (a.*member).whole.size(); ++d)
      if ((a.*member).whole[d])
        changes.push_back([=](Attention& a) { (a.*member).whole[d] = false; });
  }
}

Changes<Attention> changesOf(const Attention& a) {
  Changes<Attention> changes;
  if (a.schedules != 0)
    changes.push_back([](Attention& a) { a.schedules = 0; });
  if (a.backward)
    changes.push_back([](Attention& a) { a.backward = false; });
  addRules(changes, a);
  if (!a.leading.empty() && !a.isTogether)
    changes.push_back([](Attention& a) {
      a.leading.pop_back();
      for (auto* ofScores : {&a.bias.whole, &a.mask.whole})
        if (!ofScores->empty())
          ofScores->erase(ofScores->begin());
    });
  for (std::size_t d = 0; d < a.leading.size(); ++d)
    if (a.leading[d] > 1)
      changes.push_back([d](Attention& a) { a.leading[d] = 1; });
  addSmaller(changes, a, &Attention::sharing, 1);
  addSmaller(changes, a, &Attention::keyHeads, 1);
  if (a.queryStarts.empty()) { // else starts would lie beyond
    addSmaller(changes, a, &Attention::queries, 1);
    addSmaller(changes, a, &Attention::keys, a.isTogether ? 8 : 1);
  }
  addSmaller(changes, a, &Attention::width, a.isTogether ? 8 : 1);
  addSmaller(changes, a, &Attention::valueWidth, a.isTogether ? 8 : 1);
  return changes;
}

/// Whether it was refused; else it ran, and went wrong.
bool isRefused(const std::string& problems) {
  return problems.find("error: ") != std::string::npos;
}

} // namespace

template <class Drawn> static Drawn shrinkDrawn(const Drawn& function, Where where, int attempts) {
  Drawn smallest = function;
  const bool refused = isRefused(problemsOf(function, where));
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& change : changesOf(smallest)) {
      if (attempts-- <= 0)
        return smallest;
      Drawn smaller = smallest;
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

Function shrink(const Function& function, Where where, int attempts) {
  return shrinkDrawn(function, where, attempts);
}
Attention shrink(const Attention& attention, Where where, int attempts) {
  return shrinkDrawn(attention, where, attempts);
}

} // namespace kiln::test
