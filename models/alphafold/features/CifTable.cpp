// See CifTable.h.
#include "models/alphafold/features/CifTable.h"

#include "models/common/Fail.h"

#include <charconv>
#include <cmath>

namespace kiln::alphafold {

std::optional<double> parseNumber(std::string_view text) {
  if (text.ends_with(')'))
    text = text.substr(0, text.find('('));
  if (text.starts_with('+'))
    text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return {};
  return value;
}

bool CifRow::has(std::size_t column) const {
  const std::string* first = table->first[column];
  return first && !CifFile::isNull(first[row * table->stride]);
}

std::string CifRow::text(std::size_t column) const {
  const std::string* first = table->first[column];
  return first ? CifFile::unquoted(first[row * table->stride]) : std::string();
}

double CifRow::number(std::size_t column) const {
  const auto value = parseNumber(text(column));
  if (!value)
    refuse(fmt::format("{} is {}; a number is needed", table->columns[column],
                       inQuotes(text(column))));
  return *value;
}

std::int64_t CifRow::integer(std::size_t column) const {
  const std::string word = text(column);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size())
    refuse(
        fmt::format("{} is {}; a whole number is needed", table->columns[column], inQuotes(word)));
  return value;
}

void CifRow::refuse(const std::string& text) const {
  models::fail(ErrorKind::input, "{}:{}: in row {} of {}, which begins here, {}", table->file,
               table->line, row + 1, table->name, text);
}

CifDocument::CifDocument(const Text& text) : name(text.name) {
  if (text.contents.find_first_not_of(" \t\r\n") == std::string::npos)
    refuse("the file is empty; an mmCIF file is needed");
  try {
    file = std::make_unique<CifFile>(text.contents, name);
  } catch (const std::exception& error) {
    std::string what = printable(error.what()); // begins with name:line:column
    constexpr std::size_t longest = 400;
    what.resize(std::min(what.size(), longest));
    models::fail(ErrorKind::input, "{}{}; an mmCIF file is needed",
                 what.starts_with(name) ? "" : name + ": ", what);
  }
  if (!file->hasBlock())
    refuse("there is no data block; an mmCIF file is needed");
}

CifTable CifDocument::table(const std::string& category, std::initializer_list<const char*> columns,
                            std::size_t least) const {
  CifTable table;
  table.file = name;
  table.name = category.substr(0, category.size() - 1);
  std::string missing;
  bool isThere = false;
  for (std::string column : columns) {
    const bool isOptional = column.starts_with('?');
    column.erase(0, isOptional ? 1 : 0);
    const CifColumn found = file->column(category + column);
    table.columns.push_back(column);
    table.first.push_back(found.first);
    if (!found.first) {
      if (!isOptional)
        missing += " " + column;
      continue;
    }
    if (isThere && (found.rows != table.rows || found.stride != table.stride))
      refuse(table.name + " is in several pieces; one loop is needed");
    isThere = true;
    table.rows = found.rows;
    table.stride = found.stride;
    table.line = found.line;
  }
  if (!missing.empty() && (isThere || least > 0))
    refuse(fmt::format("{} lacks{}, which {} needed", table.name, missing,
                       missing.find(' ', 1) == std::string::npos ? "is" : "are"));
  if (table.rows < least)
    refuse(fmt::format("{} has {} rows; at least {} are needed", table.name, table.rows, least));
  return table;
}

std::vector<std::string> CifDocument::values(const std::string& tag) const {
  const CifColumn found = file->column(tag);
  std::vector<std::string> all;
  for (std::size_t row = 0; row < found.rows; ++row)
    if (const std::string& value = found.first[row * found.stride]; !CifFile::isNull(value))
      all.push_back(CifFile::unquoted(value));
  return all;
}

std::string CifDocument::value(const std::string& tag) const {
  const auto all = values(tag);
  return all.empty() ? std::string() : all[0];
}

void CifDocument::refuse(const std::string& text) const {
  models::fail(ErrorKind::input, "{}: {}", name, text);
}

} // namespace kiln::alphafold
