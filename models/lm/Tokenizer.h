// Bytes, or byte pairs merged by frequency, as tokens. Tokens 0 to 255 are bytes and token 256 + i
// is the i-th merge of two earlier ones, so every text, and every string of bytes, comes back as it
// was.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kiln::lm {

using Token = std::int32_t;

class Tokenizer {
 public:
  using Pair = std::pair<Token, Token>;

  Tokenizer() = default; // bytes
  /// Throws Error(corrupt) if a merge names a token that does not come before it.
  explicit Tokenizer(std::vector<Pair> merges);

  /// Merges what a text repeats most until there are `vocabulary` tokens or nothing is repeated.
  /// Of pairs that are as frequent the one with smaller tokens comes first.
  static Tokenizer train(std::string_view text, std::int64_t vocabulary);

  std::int64_t vocabulary() const { return 256 + std::int64_t(merges.size()); }
  std::vector<Token> encode(std::string_view text) const;
  /// Throws Error(input) for a token out of range.
  std::string decode(const std::vector<Token>& tokens) const;

  /// As JSON. parse() throws Error(corrupt).
  std::string text() const;
  static Tokenizer parse(std::string_view text, const std::string& from);
  void save(const std::filesystem::path& path) const;
  static Tokenizer load(const std::filesystem::path& path);

 private:
  void encodeWord(std::string_view word, std::vector<Token>& out) const;

  std::vector<Pair> merges;
  std::map<Pair, Token> ranks;    // the token that a pair becomes
  std::vector<std::string> bytes; // of each token
};

/// Cuts a text where no token may cross: words and numbers with the blank before them, runs of
/// other signs, and white space. Calls `each` with the pieces in order.
void forEachWord(std::string_view text, const std::function<void(std::string_view)>& each);

} // namespace kiln::lm
