// The nearest of the words that are allowed, for messages about one that is not: a misspelt
// operation, attribute, option or value. Plain C++: the dialect, the backend and the command share
// it.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// The fewest letters to insert, drop, replace, or swap with their neighbours that make `to` of
/// `from`; upper and lower case, and '-' and '_', are the same.
inline std::size_t editDistance(std::string_view from, std::string_view to) {
  const auto same = [](char a, char b) {
    const auto plain = [](char c) {
      return c == '-' ? '_' : std::tolower(static_cast<unsigned char>(c));
    };
    return plain(a) == plain(b);
  };
  std::vector<std::size_t> beforeLast, last(to.size() + 1), next(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j)
    last[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (same(from[i - 1], to[j - 1]) ? 0 : 1);
      next[j] = std::min({last[j] + 1, next[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && same(from[i - 1], to[j - 2]) && same(from[i - 2], to[j - 1]))
        next[j] = std::min(next[j], beforeLast[j - 2] + 1);
    }
    beforeLast = last;
    last.swap(next);
  }
  return last.back();
}

/// Of `allowed` the word that `word` most likely stands for, the first among equals; empty: more
/// than a third of its letters would have to change, or it is longer than any name.
template <class Words> std::string_view nearestWord(std::string_view word, const Words& allowed) {
  constexpr std::size_t longest = 64; // a stranger's text: the distance takes the square of it
  std::string_view nearest;
  std::size_t least = longest;
  for (const auto& candidate : allowed) {
    const std::string_view one(candidate.data(), candidate.size());
    if (word.size() > longest || one.size() > longest)
      continue;
    const std::size_t distance = editDistance(word, one);
    if (distance <= std::max<std::size_t>(1, std::max(word.size(), one.size()) / 3) &&
        distance < std::min({least, word.size(), one.size()}))
      nearest = one, least = distance;
  }
  return nearest;
}

/// "; did you mean 'bf16'?" for the end of a message, or nothing.
template <class Words> std::string didYouMean(std::string_view word, const Words& allowed) {
  const std::string_view nearest = nearestWord(word, allowed);
  return nearest.empty() ? "" : "; did you mean '" + std::string(nearest) + "'?";
}

} // namespace kiln
