// Byte-pair encoding. Training keeps the count of each pair and the words that hold it, so that a
// merge costs what it changes.
#include "models/lm/Tokenizer.h"

#include "kiln/files.h"
#include "models/common/Fail.h"
#include "models/lm/Config.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <queue>
#include <set>

namespace kiln::lm {

namespace {

using Pair = Tokenizer::Pair;

struct Word {
  std::vector<Token> tokens;
  std::int64_t count;
};

enum class Kind { letter, digit, space, sign };

Kind kindOf(char c) {
  const bool isHigh = static_cast<unsigned char>(c) >= 128; // part of a character of UTF-8
  if (isHigh || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
    return Kind::letter;
  if (c >= '0' && c <= '9')
    return Kind::digit;
  return c == ' ' || (c >= '\t' && c <= '\r') ? Kind::space : Kind::sign;
}

/// What training knows: distinct words with their tokens so far, and where each pair is.
class Merger {
 public:
  explicit Merger(std::string_view text) {
    std::map<std::string_view, std::int64_t> counts;
    forEachWord(text, [&](std::string_view word) { ++counts[word]; });
    for (auto [word, count] : counts) {
      Word& made = words.emplace_back(Word{{}, count});
      for (char c : word)
        made.tokens.push_back(static_cast<unsigned char>(c));
      countPairs(words.size() - 1, 1);
    }
    for (const auto& [pair, found] : pairs)
      queue.emplace(found.count, pair);
  }

  std::vector<Pair> merges(std::int64_t wanted) {
    std::vector<Pair> made;
    while (std::int64_t(made.size()) < wanted && !queue.empty()) {
      const Candidate best = queue.top();
      queue.pop();
      const auto found = pairs.find(best.pair);
      if (found == pairs.end() || found->second.count != best.count)
        continue; // counted anew since, and queued again
      if (best.count < 2)
        break;
      const std::set<std::size_t> holders = found->second.words;
      made.push_back(best.pair);
      changed.clear();
      for (std::size_t holder : holders)
        merge(holder, best.pair, Token(255 + made.size()));
      for (const Pair& pair : changed)
        if (auto now = pairs.find(pair); now != pairs.end())
          queue.emplace(now->second.count, pair);
    }
    return made;
  }

 private:
  struct Found {
    std::int64_t count = 0;
    std::set<std::size_t> words;
  };
  struct Candidate {
    std::int64_t count;
    Pair pair;
    Candidate(std::int64_t count, Pair pair) : count(count), pair(pair) {}
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  void countPairs(std::size_t index, int sign) {
    const Word& word = words[index];
    for (std::size_t i = 0; i + 1 < word.tokens.size(); ++i) {
      const Pair pair{word.tokens[i], word.tokens[i + 1]};
      Found& found = pairs[pair];
      found.count += sign * word.count;
      changed.insert(pair);
      if (sign > 0)
        found.words.insert(index);
      else
        found.words.erase(index);
      if (found.count == 0)
        pairs.erase(pair);
    }
  }

  void merge(std::size_t index, Pair pair, Token token) {
    countPairs(index, -1);
    std::vector<Token>& tokens = words[index].tokens;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const bool joins = i + 1 < tokens.size() && Pair{tokens[i], tokens[i + 1]} == pair;
      tokens[kept++] = joins ? token : tokens[i];
      i += joins ? 1 : 0;
    }
    tokens.resize(kept);
    countPairs(index, 1);
  }

  std::vector<Word> words;
  std::map<Pair, Found> pairs;
  std::set<Pair> changed; // by the merge in hand
  std::priority_queue<Candidate> queue;
};

} // namespace

void forEachWord(std::string_view text, const std::function<void(std::string_view)>& each) {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    Kind kind = kindOf(text[at]);
    if (text[at] == ' ' && end < text.size() && kindOf(text[end]) != Kind::space)
      kind = kindOf(text[end++]);
    while (end < text.size() && kindOf(text[end]) == kind)
      ++end;
    if (kind == Kind::space && end - at > 1 && end < text.size() && text[end - 1] == ' ')
      --end; // the last blank belongs to the word behind it
    each(text.substr(at, end - at));
    at = end;
  }
}

Tokenizer::Tokenizer(std::vector<Pair> given) : merges(std::move(given)) {
  for (int byte = 0; byte < 256; ++byte)
    bytes.emplace_back(1, static_cast<char>(byte));
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const auto [left, right] = merges[i];
    const auto token = Token(256 + i);
    if (left < 0 || right < 0 || left >= token || right >= token)
      fail(ErrorKind::corrupt, "merge {} joins tokens {} and {}; it may join 0 to {}", i, left,
           right, token - 1);
    bytes.push_back(bytes[std::size_t(left)] + bytes[std::size_t(right)]);
    if (!ranks.emplace(merges[i], token).second)
      fail(ErrorKind::corrupt, "merge {} joins tokens {} and {}, as one before it does", i, left,
           right);
  }
}

Tokenizer Tokenizer::train(std::string_view text, std::int64_t vocabulary) {
  if (vocabulary < 256)
    fail(ErrorKind::input, "a vocabulary of {} tokens: every byte is one, so at least 256",
         vocabulary);
  return Tokenizer(Merger(text).merges(vocabulary - 256));
}

/// The earliest merge of a word is done first, until none is left.
void Tokenizer::encodeWord(std::string_view word, std::vector<Token>& out) const {
  std::vector<Token> tokens;
  for (char c : word)
    tokens.push_back(static_cast<unsigned char>(c));
  while (tokens.size() > 1) {
    Token best = std::numeric_limits<Token>::max();
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i)
      if (auto found = ranks.find({tokens[i], tokens[i + 1]});
          found != ranks.end() && found->second < best)
        best = found->second, place = i;
    if (best == std::numeric_limits<Token>::max())
      break;
    tokens[place] = best;
    tokens.erase(tokens.begin() + std::ptrdiff_t(place) + 1);
  }
  out.insert(out.end(), tokens.begin(), tokens.end());
}

std::vector<Token> Tokenizer::encode(std::string_view text) const {
  std::vector<Token> tokens;
  if (merges.empty()) {
    for (char c : text)
      tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  std::unordered_map<std::string_view, std::vector<Token>> known; // words repeat
  forEachWord(text, [&](std::string_view word) {
    auto [entry, isNew] = known.try_emplace(word);
    if (isNew)
      encodeWord(word, entry->second);
    tokens.insert(tokens.end(), entry->second.begin(), entry->second.end());
  });
  return tokens;
}

std::string Tokenizer::decode(const std::vector<Token>& tokens) const {
  std::string text;
  for (Token token : tokens) {
    if (token < 0 || token >= vocabulary())
      fail(ErrorKind::input, "token {}: the tokenizer knows 0 to {}", token, vocabulary() - 1);
    if (merges.empty())
      text += static_cast<char>(token);
    else
      text += bytes[std::size_t(token)];
  }
  return text;
}

std::string Tokenizer::text() const {
  return nlohmann::json{{"format", "kiln byte pairs"}, {"merges", merges}}.dump();
}

Tokenizer Tokenizer::parse(std::string_view text, const std::string& from) try {
  const auto parsed = nlohmann::json::parse(text);
  if (parsed.at("format") != "kiln byte pairs")
    fail(ErrorKind::corrupt, "format {}: 'kiln byte pairs' is read", parsed.at("format").dump());
  return Tokenizer(parsed.at("merges").get<std::vector<Pair>>());
} catch (const nlohmann::json::exception& error) {
  fail(ErrorKind::corrupt, "{} is no tokenizer: {}", from, error.what());
} catch (const Error& error) {
  fail(ErrorKind::corrupt, "{} is no tokenizer: {}", from, error.what());
}

void Tokenizer::save(const std::filesystem::path& path) const {
  writeFile(path, text() + '\n');
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    fail(ErrorKind::missing,
         "{} cannot be read; train_lm --train-tokenizer={} --data=FILE makes it", path.string(),
         path.string());
  return parse(std::string(std::istreambuf_iterator<char>(file), {}), path.string());
}

} // namespace kiln::lm
