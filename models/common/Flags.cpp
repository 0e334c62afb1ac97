// See Flags.h.
#include "models/common/Flags.h"

#include "models/common/Fail.h"

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace kiln::models {

namespace {

using nlohmann::json;

/// JSON for CLI11: {"steps": 100, "precision": "bf16"}
class JsonConfig : public CLI::Config {
 public:
  explicit JsonConfig(const std::vector<Flag>& flags) : flags(flags) {}

  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return {}; }

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override try {
    const json parsed = json::parse(input);
    if (!parsed.is_object())
      fail(ErrorKind::input, "--config: an object is needed, such as {{\"steps\": 100}}");
    std::vector<CLI::ConfigItem> items;
    for (const auto& [key, value] : parsed.items()) {
      if (std::ranges::none_of(flags, [&](const Flag& f) { return f.name == key; }))
        fail(ErrorKind::input, "--config: '{}' is no option; --help lists them", key);
      if (value.is_structured() || value.is_null())
        fail(ErrorKind::input, "--config: '{}' is {}; a text, a number or true and false are read",
             key, value.dump());
      CLI::ConfigItem& item = items.emplace_back();
      item.name = key;
      item.inputs = {value.is_string() ? value.get<std::string>() : value.dump()};
    }
    return items;
  } catch (const json::exception& error) {
    fail(ErrorKind::input, "--config: {}", error.what());
  }

 private:
  const std::vector<Flag>& flags;
};

void add(CLI::App& app, const Flag& flag) {
  const std::string name = std::string("--") + flag.name;
  CLI::Option* option = std::visit(
      [&](auto* value) -> CLI::Option* {
        if constexpr (std::is_same_v<decltype(value), bool*>)
          return app.add_flag(name, *value, flag.help);
        else
          return app.add_option(name, *value, flag.help)->capture_default_str()->take_last();
      },
      flag.value);
  option->group(flag.group);
}

} // namespace

bool readFlags(const Command& command, const std::vector<Flag>& flags, int argc,
               const char* const* argv, int& status) {
  CLI::App app(command.about, command.name);
  for (const Flag& flag : flags)
    add(app, flag);
  app.set_config("--config", "", "JSON file of these options; flags come before what it says");
  app.config_formatter(std::make_shared<JsonConfig>(flags));
  app.footer(command.examples);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    status = app.exit(error) == 0 ? 0 : 2;
    return false;
  }
  return true;
}

std::string textOf(const std::vector<Flag>& flags) {
  json object = json::object();
  for (const Flag& flag : flags)
    std::visit([&](const auto* value) { object[flag.name] = *value; }, flag.value);
  object.erase("resume");
  return object.dump(2);
}

void atLeast(const char* name, std::int64_t value, std::int64_t least) {
  if (value < least)
    fail(ErrorKind::input, "--{}={}: at least {} is needed", name, value, least);
}

void inside(const char* name, double value, double from, double to) {
  if (!(value >= from && value <= to))
    fail(ErrorKind::input, "--{}={}: must lie in {} to {}", name, value, from, to);
}

void oneOf(const char* name, const std::string& value, const std::vector<std::string>& allowed) {
  if (std::ranges::find(allowed, value) == allowed.end())
    fail(ErrorKind::input, "--{}={}: allowed are {}", name, value, fmt::join(allowed, ", "));
}

} // namespace kiln::models
