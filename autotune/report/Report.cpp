// From the store's rows to the lines of a report, and what they say together; see Report.h.
#include "autotune/report/Report.h"

#include "autotune/store/Schema.h"
#include "codegen/backend/Fail.h"

#include <cmath>
#include <set>

namespace kiln::autotune {
namespace {

Figure figureAt(const Statement& row, int column) {
  return row.isNull(column) ? Figure{}
                            : Figure{row.real(column), row.real(column + 1), row.real(column + 2)};
}

Line lineOf(const Statement& row) {
  Line line;
  line.key = row.text(0);
  line.label = row.text(1);
  line.arch = row.text(2);
  line.device = row.text(3);
  line.source = row.text(4);
  line.schedule = row.text(5);
  line.reason = row.text(6);
  line.chosen = figureAt(row, 7);
  line.ratio = figureAt(row, 10);
  line.standard = figureAt(row, 13);
  line.vendor = figureAt(row, 16);
  line.provider = row.text(19);
  line.copy = figureAt(row, 20);
  line.roofline = row.real(23);
  line.bytes = row.real(24);
  line.feasible = row.integer(25);
  line.tried = row.integer(26);
  line.place = row.isNull(27) ? -1 : row.integer(27);
  line.predicted = row.real(28);
  line.eight = row.isNull(29) ? -1 : row.real(29);
  if (!line.standard.isKnown() && line.ratio.isKnown())
    line.standard.middle = line.chosen.middle / line.ratio.middle;
  if (line.source == "vendor")
    line.chosen = line.vendor;
  return line;
}

template <class Knows, class Has>
Report::Share shareOf(const std::vector<Line>& lines, Knows knows, Has has) {
  Report::Share share;
  for (const Line& line : lines)
    if (knows(line)) {
      ++share.known;
      share.count += has(line);
    }
  return share;
}

std::string textOf(Report::Share share) {
  return share.known == 0 ? "not known of any key"
                          : fmt::format("{:.0f} % ({} of {} keys)",
                                        100.0 * double(share.count) / double(share.known),
                                        share.count, share.known);
}

} // namespace

Report::Share Report::defaultsNearChoice() const {
  return shareOf(
      lines, [](const Line& line) { return line.ratio.isKnown(); },
      [](const Line& line) { return line.speedUp() <= kNearChoice; });
}

Report::Share Report::modelsNearBest() const {
  return shareOf(
      lines, [](const Line& line) { return line.eight >= 0; },
      [](const Line& line) { return line.eight > 0 && line.eight <= kNearBest; });
}

Report::Share Report::fasterThanVendor() const {
  return shareOf(
      lines, [](const Line& line) { return line.vendor.isKnown(); },
      [](const Line& line) {
        return line.source != "vendor" && line.chosen.isKnown() &&
               line.chosen.high < line.vendor.low;
      });
}

double Report::speedUp() const {
  double sum = 0, count = 0;
  for (const Line& line : lines)
    if (line.ratio.isKnown()) {
      sum += std::log(line.speedUp());
      ++count;
    }
  return count > 0 ? std::exp(sum / count) : 0;
}

std::vector<std::pair<std::string, std::string>> Report::summary() const {
  return {{"choices", std::to_string(lines.size())},
          {"default's time over the choice's, geometric mean",
           speedUp() > 0 ? fmt::format("{:.3f}", speedUp()) : "not known of any key"},
          {fmt::format("default within {:.2f} times the choice", kNearChoice),
           textOf(defaultsNearChoice())},
          {fmt::format("the cost model's best eight hold a schedule within {:.0f} % of the best",
                       100 * (kNearBest - 1)),
           textOf(modelsNearBest())},
          {"faster than the vendor's kernel", textOf(fasterThanVendor())}};
}

Report reportOf(const Store& store, const Selection& selection) {
  Report report;
  report.store = store.database().name();
  std::set<std::string> repeated;
  for (const auto& [fixed, general] : store.generals())
    repeated.insert(general);
  auto held = store.lock();
  Statement row = store.database().query(sqlOf("store/report.sql"));
  while (row.step()) {
    Line line = lineOf(row);
    KnownKey known;
    known.label = line.label;
    known.key.arch = line.arch;
    if (selection.takes(known) && !repeated.contains(line.key))
      report.lines.push_back(std::move(line));
  }
  for (Line& line : report.lines) {
    Statement best = store.database().query(sqlOf("store/progress.sql"), {line.key});
    while (best.step())
      line.progress.emplace_back(best.real(0), best.real(1));
  }
  return report;
}

std::string render(const Report& report, std::string_view format) {
  constexpr std::pair<std::string_view, std::string (*)(const Report&)> known[] = {
      {"markdown", renderMarkdown}, {"csv", renderCsv}, {"json", renderJson}, {"html", renderHtml}};
  for (auto [name, renderer] : known)
    if (name == format)
      return renderer(report);
  fail(ErrorKind::input, "unknown format '{}'; known are markdown, csv, json and html", format);
}

} // namespace kiln::autotune
