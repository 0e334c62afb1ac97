// kiln::Options from the environment and from text.
#include "kiln/torch.h"
#include "runtime/Policy.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fmt/format.h>
#include <sstream>

namespace kiln {

namespace {

[[noreturn]] void refuse(std::string_view name, std::string_view value, std::string_view allowed) {
  throw Error(ErrorKind::input, fmt::format("{}={}: allowed are {}", name, value, allowed));
}

bool parseBool(std::string_view name, std::string_view value) {
  if (value == "1" || value == "on" || value == "true")
    return true;
  if (value == "0" || value == "off" || value == "false" || value.empty())
    return false;
  refuse(name, value, "1 and 0");
}

Mode parseMode(std::string_view name, std::string_view value) {
  if (const auto found = std::ranges::find(runtime::kModeNames, value);
      found != std::end(runtime::kModeNames))
    return static_cast<Mode>(found - std::begin(runtime::kModeNames));
  refuse(name, value, "use, tune, verify, off and record");
}

Place parsePlace(std::string_view name, std::string_view value) {
  if (value == "gpu" || value == "cpu")
    return value == "gpu" ? Place::gpu : Place::cpu;
  refuse(name, value, "gpu and cpu");
}

std::int64_t parseBytes(std::string_view name, std::string_view value) {
  std::int64_t bytes = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), bytes);
  if (error != std::errc() || end != value.data() + value.size() || bytes < 0)
    refuse(name, value, "numbers of bytes, not negative,");
  return bytes;
}

/// Sets the option that is called `key` in text and KILN_KEY in the environment.
struct Field {
  std::string_view key;
  const char* variable;
  void (*set)(Options&, std::string_view name, std::string_view value);
};
constexpr Field fields[] = {
    {"mode", "KILN_MODE", [](Options& o, auto name, auto v) { o.mode = parseMode(name, v); }},
    {"ops", "KILN_OPS", [](Options& o, auto, auto v) { o.ops = v; }},
    {"cache", "KILN_CACHE", [](Options& o, auto, auto v) { o.cache = v; }},
    {"log", "KILN_LOG", [](Options& o, auto, auto v) { o.log = v; }},
    {"strict", "KILN_STRICT", [](Options& o, auto name, auto v) { o.strict = parseBool(name, v); }},
    {"place", "KILN_PLACE", [](Options& o, auto name, auto v) { o.place = parsePlace(name, v); }},
    {"formula_bytes", "KILN_FORMULA_BYTES",
     [](Options& o, auto name, auto v) { o.formulaBytes = parseBytes(name, v); }},
    {"products", "KILN_PRODUCTS", [](Options& o, auto, auto v) { o.products = v; }},
    {"tune_products", "KILN_TUNE_PRODUCTS",
     [](Options& o, auto name, auto v) { o.tuneProducts = parseBool(name, v); }},
};

} // namespace

Options Options::fromEnvironment() {
  Options options;
  for (const Field& field : fields)
    if (const char* value = std::getenv(field.variable); value && *value)
      field.set(options, field.variable, value);
  return options;
}

Options Options::parse(std::string_view text) {
  Options options = fromEnvironment();
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const auto* field = std::ranges::find(fields, word.substr(0, equals), &Field::key);
    if (field == std::end(fields) || equals == word.size())
      throw Error(
          ErrorKind::input,
          fmt::format(
              "option '{}': write mode=, ops=, cache=, log=, strict=, place=, formula_bytes=, "
              "products= or tune_products= with a value, parted by blanks",
              word));
    field->set(options, field->key, std::string_view(word).substr(equals + 1));
  }
  return options;
}

} // namespace kiln
