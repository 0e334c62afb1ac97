// Parser of workload files (format: kiln/workload.h). A bad line is told by its number and what is
// allowed there; the lines after it are parsed all the same.
#include "kiln/workload.h"

#include "dialect/DidYouMean.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace kiln {

namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw Error(ErrorKind::input, text);
}

bool isBlank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

std::vector<std::string_view> fieldsOf(std::string_view line) {
  std::vector<std::string_view> fields;
  line = line.substr(0, line.find('#'));
  std::size_t begin = 0;
  while (begin < line.size()) {
    if (isBlank(line[begin])) {
      ++begin;
      continue;
    }
    std::size_t end = begin;
    while (end < line.size() && !isBlank(line[end]))
      ++end;
    fields.push_back(line.substr(begin, end - begin));
    begin = end;
  }
  return fields;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos)
      return parts;
    text.remove_prefix(end + 1);
  }
}

/// What comes from a file may be anything: a message shows at most some printable characters.
std::string quoted(std::string_view text) {
  constexpr std::size_t most = 60;
  return fmt::format("'{}{}'", printable(text.substr(0, most)), text.size() > most ? "..." : "");
}

std::int64_t parseSize(std::string_view text, std::string_view shape) {
  if (text == "?")
    return -1;
  std::int64_t size = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (code != std::errc{} || end != text.data() + text.size() || size < 0)
    refuse(fmt::format("{} is no shape: sizes from 0 up, or '?', with 'x' between them, such as "
                       "65536x128",
                       quoted(shape)));
  return size;
}

double parseShare(std::string_view text) {
  std::string_view digits = text.substr(0, text.size() - (text.ends_with('%') ? 1 : 0));
  double share = 0;
  auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), share);
  if (digits.size() < text.size())
    share /= 100;
  bool complete = code == std::errc{} && end == digits.data() + digits.size();
  if (!complete || !std::isfinite(share) || share < 0 || share > 1)
    refuse(fmt::format("{} is no share: a fraction from 0 to 1 or a percentage, such as 0.6 or 60%",
                       quoted(text)));
  return share;
}

struct Options {
  bool forward = false;
  bool backward = false;
  bool readAhead = true;
  std::string function;
  std::vector<std::pair<std::string, std::string>> settings;
};

bool isSetting(std::string_view word) {
  const std::size_t at = word.find('=');
  return at != std::string_view::npos && at > 0 && at + 1 < word.size();
}

std::pair<std::string, std::string> settingOf(std::string_view word) {
  const std::size_t at = word.find('=');
  return {std::string(word.substr(0, at)), std::string(word.substr(at + 1))};
}

Options parseOptions(std::span<const std::string_view> fields) {
  Options options;
  for (std::string_view field : fields)
    for (std::string_view word : split(field, ','))
      if (word == "forward")
        options.forward = true;
      else if (word == "backward")
        options.backward = true;
      else if (word == "no_read_ahead")
        options.readAhead = false;
      else if (word.starts_with("function=") && word.size() > 9)
        options.function = word.substr(9);
      else if (isSetting(word))
        options.settings.push_back(settingOf(word));
      else
        refuse(fmt::format("{} is no option: forward, backward, no_read_ahead, function=NAME of a "
                           "file, or a setting of an op, such as causal=last{}",
                           quoted(word),
                           didYouMean(word, std::array<std::string_view, 3>{"forward", "backward",
                                                                            "no_read_ahead"})));
  options.forward |= !options.backward;
  if (!options.readAhead && !options.backward)
    refuse("no_read_ahead is about backwards, and there is none");
  return options;
}

std::vector<DType> parseDTypes(std::string_view text) {
  std::vector<DType> dtypes;
  for (std::string_view word : split(text, ','))
    dtypes.push_back(parseDType(word));
  return dtypes;
}

/// The entries of one line, which may name several dtypes and both directions.
std::vector<WorkloadEntry> parseLine(std::span<const std::string_view> fields,
                                     const std::filesystem::path& folder) {
  if (fields.size() < 4)
    refuse(fmt::format("{} of at least 4 fields: what, shape, dtype, share, then options",
                       fields.size()));
  WorkloadEntry entry;
  entry.isFile = fields[0].ends_with(".mlir");
  entry.what = entry.isFile ? (folder / fields[0]).string() : std::string(fields[0]);
  if (!entry.isFile || fields[1] != "-")
    entry.shape = parseShape(fields[1]);
  if (entry.isFile && std::ranges::count(entry.shape, -1) != 0)
    refuse("the run-time sizes of a file must be numbers");
  if (entry.isFile != (fields[2] == "-"))
    refuse(entry.isFile ? "the dtype of a file must be '-': its text says it"
                        : "an op needs a dtype, such as bf16");
  auto dtypes = entry.isFile ? std::vector{DType::f32} : parseDTypes(fields[2]);
  entry.share = parseShare(fields[3]);
  Options options = parseOptions(fields.subspan(4));
  if (!entry.isFile && !options.function.empty())
    refuse("function=NAME is for files");
  if (entry.isFile && !options.settings.empty())
    refuse(fmt::format("{} is a setting of an op; the text of a file says it",
                       quoted(std::string_view(settingsLabel(options.settings)).substr(1))));
  entry.function = options.function;
  entry.settings = options.settings;

  std::vector<WorkloadEntry> entries;
  for (bool backward : {false, true})
    for (DType dtype : dtypes)
      if (backward ? options.backward : options.forward) {
        entry.dtype = dtype;
        entry.backward = backward;
        entry.readAhead = options.readAhead || !backward;
        entries.push_back(entry);
      }
  return entries;
}

} // namespace

std::vector<std::int64_t> parseShape(std::string_view text) {
  std::vector<std::int64_t> shape;
  for (std::string_view size : split(text, 'x'))
    shape.push_back(parseSize(size, text));
  return shape;
}

std::string shapeText(std::span<const std::int64_t> shape) {
  std::string text;
  for (std::int64_t size : shape)
    text += (text.empty() ? "" : "x") + (size < 0 ? std::string("?") : std::to_string(size));
  return text;
}

std::vector<std::pair<std::string, std::string>> parseSettings(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (std::string_view word : split(text, ','))
    if (isSetting(word))
      settings.push_back(settingOf(word));
    else if (!text.empty())
      refuse(fmt::format("{} is no setting: a name and a value, such as causal=last, with commas "
                         "between several",
                         quoted(word)));
  return settings;
}

Workload parseWorkload(std::string_view text, std::string_view name) {
  Workload workload;
  std::filesystem::path folder = std::filesystem::path(name).parent_path();
  int number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    auto fields = fieldsOf(line);
    if (fields.empty())
      continue;
    try {
      for (WorkloadEntry& entry : parseLine(fields, folder)) {
        entry.line = number;
        workload.entries.push_back(std::move(entry));
      }
    } catch (const Error& error) {
      workload.errors.push_back(fmt::format("{}:{}: {}", name, number, error.what()));
    }
  }
  return workload;
}

} // namespace kiln
