// See CifTable.h.
#include "models/alphafold/features/CifTable.h"

#include "codegen/backend/Fail.h"

#include <charconv>
#include <cmath>
#include <gemmi/cif.hpp>

namespace kiln::alphafold {

namespace cif = gemmi::cif;

struct CifDocument::Parsed {
  cif::Document document;
  cif::Block* block = nullptr; // the first with atoms, else the first
};

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
  return first && !cif::is_null(first[row * table->stride]);
}

std::string CifRow::text(std::size_t column) const {
  const std::string* first = table->first[column];
  return first ? cif::as_string(first[row * table->stride]) : std::string();
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
  fail(ErrorKind::input, "{}:{}: in row {} of {}, which begins here, {}", table->file, table->line,
       row + 1, table->name, text);
}

CifDocument::CifDocument(const Text& text) : name(text.name), parsed(std::make_unique<Parsed>()) {
  if (text.contents.find_first_not_of(" \t\r\n") == std::string::npos)
    refuse("the file is empty; an mmCIF file is needed");
  try {
    parsed->document = cif::read_memory(text.contents.data(), text.contents.size(), name.c_str());
  } catch (const std::exception& error) {
    std::string what = printable(error.what()); // begins with name:line:column
    constexpr std::size_t longest = 400;
    what.resize(std::min(what.size(), longest));
    fail(ErrorKind::input, "{}{}; an mmCIF file is needed",
         what.starts_with(name) ? "" : name + ": ", what);
  }
  for (cif::Block& block : parsed->document.blocks)
    if (!parsed->block ||
        (!parsed->block->has_tag("_atom_site.id") && block.has_tag("_atom_site.id")))
      parsed->block = &block;
  if (!parsed->block)
    refuse("there is no data block; an mmCIF file is needed");
}

CifDocument::~CifDocument() = default;

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
    table.columns.push_back(column);
    cif::Column found = parsed->block->find_values(category + column);
    table.first.push_back(found ? &*found.begin() : nullptr);
    if (!found) {
      if (!isOptional)
        missing += " " + column;
      continue;
    }
    const cif::Loop* loop = found.get_loop();
    const std::size_t rows = loop ? loop->length() : 1, stride = loop ? loop->width() : 0;
    if (isThere && (rows != table.rows || stride != table.stride))
      refuse(table.name + " is in several pieces; one loop is needed");
    isThere = true;
    table.rows = rows;
    table.stride = stride;
    table.line = found.item()->line_number;
  }
  if (!missing.empty() && (isThere || least > 0))
    refuse(fmt::format("{} lacks{}, which {} needed", table.name, missing,
                       missing.find(' ', 1) == std::string::npos ? "is" : "are"));
  if (table.rows < least)
    refuse(fmt::format("{} has {} rows; at least {} are needed", table.name, table.rows, least));
  return table;
}

std::vector<std::string> CifDocument::values(const std::string& tag) const {
  std::vector<std::string> all;
  for (const std::string& value : parsed->block->find_values(tag))
    all.push_back(cif::as_string(value));
  return all;
}

std::string CifDocument::value(const std::string& tag) const {
  const auto all = values(tag);
  return all.empty() ? std::string() : all[0];
}

void CifDocument::refuse(const std::string& text) const {
  fail(ErrorKind::input, "{}: {}", name, text);
}

} // namespace kiln::alphafold
