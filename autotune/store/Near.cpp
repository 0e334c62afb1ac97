// Which keys are near another: the same function at other sizes.
#include "autotune/store/Layers.h"

#include <algorithm>
#include <cmath>

namespace kiln::autotune {
namespace {

bool isDigit(char c) {
  return c >= '0' && c <= '9';
}

/// The text of a function without the sizes of its tensors.
std::string withoutSizes(std::string_view text) {
  constexpr std::string_view tensor = "tensor<";
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(tensor), text.size());
    const std::size_t begin = std::min(end + tensor.size(), text.size());
    result += text.substr(0, begin);
    text.remove_prefix(begin);
    for (std::size_t digits = 0; digits < text.size(); ++digits)
      if (text[digits] == 'x' && digits > 0) {
        result += "?x";
        text.remove_prefix(digits + 1);
        digits = std::string_view::npos; // from the start again
      } else if (!isDigit(text[digits]) && text[digits] != '?') {
        break;
      }
  }
  return result;
}

/// The numbers in "bf16[65536x128]/16": those between brackets.
std::vector<double> sizesOf(std::string_view tensors) {
  std::vector<double> sizes;
  bool inside = false, after = false; // within brackets; behind a digit
  for (char c : tensors) {
    inside = (inside || c == '[') && c != ']';
    const bool digit = inside && isDigit(c);
    if (digit && !after)
      sizes.push_back(0);
    if (digit)
      sizes.back() = 10 * sizes.back() + (c - '0');
    after = digit;
  }
  return sizes;
}

/// Halvings and doublings from the sizes of one to those of the other.
struct Distance {
  double sum = 0, largest = 0; // over the sizes
};
std::optional<Distance> distance(std::string_view one, std::string_view other) {
  const std::vector<double> a = sizesOf(one), b = sizesOf(other);
  if (a.size() != b.size())
    return std::nullopt;
  Distance found;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double far = std::abs(std::log2(std::max(a[i], 0.5) / std::max(b[i], 0.5)));
    found.sum += far;
    found.largest = std::max(found.largest, far);
  }
  return found;
}

/// Chosen for a reason that holds nearby too.
bool isTried(const Choice& choice) {
  return choice.source == Source::measured || choice.source == Source::pinned ||
         choice.source == Source::vendor;
}

} // namespace

std::vector<Found> Layers::near(const Key& key) const {
  std::vector<std::pair<double, Found>> found;
  for (const auto& [name, store] : layers)
    for (const KnownKey& known : store->keys()) {
      Key same = known.key;
      same.tensors = key.tensors;
      same.space = key.space; // follows from function and sizes
      same.nvrtc = key.nvrtc;
      const auto far = distance(known.key.tensors, key.tensors);
      if (!(same == key) || !far || far->largest > 1)
        continue;
      if (auto choice = store->choice(known.key); choice && isTried(*choice))
        found.emplace_back(far->sum, Found{*choice, known.key, name, store});
    }
  std::ranges::stable_sort(found, {}, [](const auto& one) { return one.first; });
  std::vector<Found> nearest;
  for (auto& [far, one] : found)
    nearest.push_back(std::move(one));
  return nearest;
}

std::vector<std::string> Store::near(const Key& key) const {
  constexpr std::size_t most = 4;
  auto textOf = [&](const Key& of) {
    auto held = lock();
    Statement row = connection->query(
        "SELECT text FROM workload WHERE function = ? AND tensors = ?", {of.function, of.tensors});
    return row.step() ? withoutSizes(row.text(0)) : std::string();
  };
  const std::string text = textOf(key);
  if (text.empty())
    return {};
  std::vector<std::pair<double, std::string>> found; // by distance
  for (const KnownKey& known : keys()) {
    if (known.key == key || known.key.arch != key.arch || known.key.device != key.device ||
        known.key.regime != key.regime || textOf(known.key) != text)
      continue;
    auto chosen = choice(known.key);
    const auto far = distance(known.key.tensors, key.tensors);
    if (chosen && !chosen->schedule.empty() && far && isTried(*chosen))
      found.emplace_back(far->sum, chosen->schedule);
  }
  std::ranges::sort(found);
  std::vector<std::string> schedules;
  for (const auto& [far, schedule] : found)
    if (std::ranges::find(schedules, schedule) == schedules.end() && schedules.size() < most)
      schedules.push_back(schedule);
  return schedules;
}

} // namespace kiln::autotune
