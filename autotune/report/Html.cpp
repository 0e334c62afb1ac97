// Reports as one page that needs nothing else: rows in groups are written here, readable without
// script; page.css dresses them, rows.js sorts, searches and folds them, and charts.js draws charts
// from the same JSON. All that comes from a store is escaped.
#include "autotune/Label.h"
#include "autotune/report/Report.h"
#include "codegen/backend/Fail.h"
#include "kiln/kiln.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>

extern "C" const struct {
  const char *name, *text;
} kiln_report_files[];

namespace kiln::autotune {
namespace {

std::string escaped(std::string_view text) {
  std::string all;
  for (char c : printable(text))
    switch (c) {
    case '&':
      all += "&amp;";
      break;
    case '<':
      all += "&lt;";
      break;
    case '"':
      all += "&quot;";
      break;
    default:
      all += c;
    }
  return all;
}

/// JSON in which nothing can end the element that holds it.
std::string inScript(std::string json) {
  for (std::size_t at = 0; (at = json.find('<', at)) != std::string::npos;)
    json.replace(at, 1, "\\u003c");
  return json;
}

std::string fileOf(std::string_view name) {
  for (const auto* file = kiln_report_files; file->name; ++file)
    if (file->name == name)
      return file->text;
  fail(ErrorKind::input, "no file '{}' in the library", name);
}

std::string summaryOf(const Report& report) {
  std::string text = "<dl class=\"summary\">\n";
  for (const auto& [what, value] : report.summary())
    text += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escaped(what), escaped(value));
  return text + "</dl>";
}

/// A time of a line, to be drawn beside the others.
struct Bar {
  std::string_view kind, name;
  double ratio; // to the choice's
};
std::vector<Bar> barsOf(const Line& line) {
  std::vector<Bar> bars;
  auto add = [&](std::string_view kind, std::string_view name, const Figure& figure) {
    if (line.chosen.isKnown() && figure.isKnown())
      bars.push_back({kind, name, figure.middle / line.chosen.middle});
  };
  add("chosen", "choice", line.chosen);
  add("default", "default", line.standard);
  if (line.source != "vendor")
    add("vendor", line.provider, line.vendor);
  add("copy", "plain copy", line.copy);
  return bars;
}

double longest(const Line& line) {
  double most = 0;
  for (const Bar& bar : barsOf(line))
    most = std::max(most, bar.ratio);
  return most;
}

constexpr double kBarsWidth = 150, kBarHeight = 4, kMostRatio = 3; // what is longer ends in a gap

/// The bars of a line, as long as the times; the longest of all lines has the whole width.
std::string drawnBars(const Line& line, double most) {
  const std::vector<Bar> bars = barsOf(line);
  if (bars.size() < 2)
    return "";
  std::string drawn, words;
  double y = 0;
  for (const auto& [kind, name, ratio] : bars) {
    const double length = kBarsWidth * std::min(ratio / most, 1.0);
    drawn += fmt::format("<rect class=\"bar {}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\"/>", kind,
                         y, ratio > most ? length - 8 : length, kBarHeight - 1);
    if (ratio > most)
      drawn += fmt::format("<rect class=\"bar {}\" x=\"{}\" y=\"{}\" width=\"4\" height=\"{}\"/>",
                           kind, kBarsWidth - 4, y, kBarHeight - 1);
    if (kind != "chosen")
      words += fmt::format("{}{} {:.2f}", words.empty() ? "" : ", ", name, ratio);
    y += kBarHeight;
  }
  return fmt::format("<svg class=\"bars\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
                     "preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{2} times the "
                     "choice's time\">{3}</svg>",
                     kBarsWidth, y, escaped(words), drawn);
}

constexpr std::string_view kBarsTitle = "times";

std::string legend() {
  std::string text = "<ul class=\"legend\">";
  for (auto [kind, name] : {std::pair("chosen", "the choice"), std::pair("default", "the default"),
                            std::pair("vendor", "the vendor's kernel"),
                            std::pair("copy", "a plain copy of as many bytes")})
    text += fmt::format(
        "<li><svg width=\"14\" height=\"8\" aria-hidden=\"true\"><rect class=\"bar {}\" "
        "width=\"14\" height=\"8\"/></svg>{}</li>",
        kind, name);
  return text + "</ul>\n";
}

/// What the cells of a line are sorted by; nothing: by their text.
std::vector<std::optional<double>> valuesOf(const Line& line) {
  const double width = line.chosen.isKnown() ? line.chosen.high - line.chosen.low : 0;
  return {std::nullopt,         line.chosen.middle,     width,
          line.standard.middle, line.speedUp(),         line.vendor.middle,
          line.copy.middle,     line.shareOfRoofline(), double(line.tried),
          std::nullopt};
}

/// What narrow pages leave out.
std::string_view classOf(std::size_t column) {
  switch (column) {
  case 2:
    return " class=\"interval\"";
  case 8:
    return " class=\"tried\"";
  case 9:
    return " class=\"source\"";
  default:
    return "";
  }
}

std::string valueText(double value) {
  return value > 0 ? fmt::format("{:.6g}", value) : "";
}

std::string rowOf(const Line& line, std::size_t number, double most) {
  const std::vector<std::string> row = cells(line), names = titles();
  std::string text = fmt::format(
      "<tr id=\"line-{0}\" data-line=\"{0}\" data-direction=\"{1}\"><th scope=\"row\"><details>"
      "<summary>{2}</summary><p><code>{3}</code></p><p>{4}: {5}</p></details></th>",
      number, isBackwardLabel(line.label) ? "backward" : "forward", escaped(row[0]),
      escaped(line.schedule), escaped(line.source), escaped(line.reason));
  const auto values = valuesOf(line);
  for (std::size_t i = 1; i < row.size(); ++i)
    text += fmt::format("<td{}{} data-title=\"{}\">{}</td>", classOf(i),
                        values[i] ? fmt::format(" data-value=\"{}\"", valueText(*values[i])) : "",
                        names[i], escaped(row[i]));
  return text + fmt::format("<td class=\"times\" data-value=\"{}\">{}</td></tr>\n",
                            valueText(longest(line)), drawnBars(line, most));
}

/// Its geometric means, of the lines that know.
std::string factsOf(const std::vector<const Line*>& lines) {
  auto mean = [&](auto valueOf) {
    double sum = 0, count = 0;
    for (const Line* line : lines)
      if (const double value = valueOf(*line); value > 0) {
        sum += std::log(value);
        ++count;
      }
    return count > 0 ? std::exp(sum / count) : 0.0;
  };
  const double standard = mean([](const Line& line) { return line.speedUp(); });
  const double roofline = mean([](const Line& line) { return line.shareOfRoofline(); });
  const double vendor = mean([](const Line& line) {
    return line.chosen.isKnown() ? line.vendor.middle / line.chosen.middle : 0.0;
  });
  std::string text = fmt::format("<span class=\"many\">{} kernel{}</span>", lines.size(),
                                 lines.size() == 1 ? "" : "s");
  if (standard > 0)
    text += fmt::format("<span>default {:.2f}×</span>", standard);
  if (vendor > 0)
    text += fmt::format("<span>vendor {:.2f}×</span>", vendor);
  if (roofline > 0)
    text += fmt::format("<span>{:.0f} % of roofline</span>", 100 * roofline);
  return text;
}

std::string headOf() {
  std::string text = "<thead><tr>";
  const std::vector<std::string> names = titles();
  for (std::size_t i = 0; i < names.size(); ++i)
    text += fmt::format("<th scope=\"col\"{}>{}</th>", classOf(i), names[i]);
  return text + fmt::format("<th scope=\"col\">{}</th></tr></thead>\n", kBarsTitle);
}

/// A device's lines, by op and direction.
using Groups = std::map<std::pair<std::string, bool>, std::vector<std::size_t>>;

std::string groupsOf(const Groups& groups, const Report& report, double most) {
  std::string text;
  for (const auto& [of, numbers] : groups) {
    std::vector<const Line*> lines;
    for (std::size_t number : numbers)
      lines.push_back(&report.lines[number]);
    text += fmt::format("<details class=\"group rows\" open><summary><h3>{}{}</h3>{}</summary>\n"
                        "<div class=\"scroll\"><table>{}<tbody>\n",
                        escaped(of.first), of.second ? ", backward" : "", factsOf(lines), headOf());
    for (std::size_t number : numbers)
      text += rowOf(report.lines[number], number, most);
    text += "</tbody></table></div></details>\n";
  }
  return text;
}

std::string devicesOf(const Report& report) {
  if (report.lines.empty())
    return "<p>The store holds no choices.</p>";
  std::map<std::string, Groups> devices;
  for (std::size_t i = 0; i < report.lines.size(); ++i) {
    const Line& line = report.lines[i];
    devices[fmt::format("{} ({})", line.device, line.arch)]
           [{opOfLabel(line.label), isBackwardLabel(line.label)}]
               .push_back(i);
  }
  double most = 1.5;
  for (const Line& line : report.lines)
    most = std::clamp(longest(line), most, kMostRatio);
  std::string text;
  for (const auto& [device, groups] : devices)
    text += fmt::format("<section class=\"device\">\n<h2>{}</h2>\n{}{}</section>\n",
                        escaped(device), legend(), groupsOf(groups, report, most));
  return text;
}

} // namespace

std::string renderHtml(const Report& report) {
  const std::string store =
      report.store.empty() ? "" : fmt::format("{}, Kiln {}", report.store, report.version);
  const std::pair<std::string_view, std::string> parts[] = {
      {"@STYLE@", fileOf("report/page.css")},
      {"@STORE@", escaped(store)},
      {"@SUMMARY@", summaryOf(report)},
      {"@GROUPS@", devicesOf(report)},
      {"@DATA@", inScript(renderJson(report))},
      {"@SCRIPT@", fileOf("report/charts.js") + fileOf("report/rows.js")}};
  const std::string skeleton = fileOf("report/page.html");
  std::string page;
  std::size_t at = 0;
  for (const auto& [mark, content] : parts) { // in the order in which the skeleton has them
    const std::size_t next = skeleton.find(mark, at);
    page += skeleton.substr(at, next - at) + content;
    at = next + mark.size();
  }
  return page + skeleton.substr(at);
}

} // namespace kiln::autotune
