// Reports as one page: tables are written here, readable without script; charts are drawn from the
// same JSON by the page's own script (page.html).
#include "autotune/report/Report.h"
#include "kiln/kiln.h"

#include <fmt/format.h>

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

void fill(std::string& page, std::string_view mark, const std::string& content) {
  page.replace(page.find(mark), mark.size(), content);
}

std::string summaryOf(const Report& report) {
  std::string text = "<dl>\n";
  for (const auto& [what, value] : report.summary())
    text += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escaped(what), escaped(value));
  return text + "</dl>";
}

std::string tablesOf(const Report& report) {
  std::string text;
  const Line* before = nullptr;
  for (const Line& line : report.lines) {
    if (!before || before->device != line.device || before->arch != line.arch) {
      text +=
          fmt::format("{}<table>\n<caption>{} ({})</caption>\n<thead><tr>",
                      before ? "</tbody></table>\n" : "", escaped(line.device), escaped(line.arch));
      for (const std::string& title : titles())
        text += fmt::format("<th scope=\"col\">{}</th>", title);
      text += "</tr></thead>\n<tbody>\n";
    }
    const std::vector<std::string> row = cells(line);
    text += fmt::format("<tr title=\"{}\"><th scope=\"row\">{}</th>",
                        escaped(line.schedule + ": " + line.reason), escaped(row[0]));
    for (std::size_t i = 1; i < row.size(); ++i)
      text += fmt::format("<td>{}</td>", escaped(row[i]));
    text += "</tr>\n";
    before = &line;
  }
  return before ? text + "</tbody></table>" : "<p>The store holds no choices.</p>";
}

} // namespace

std::string renderHtml(const Report& report) {
  std::string page = kiln_report_files[0].text;
  fill(page, "@DATA@", inScript(renderJson(report))); // from behind: contents may hold any text
  fill(page, "@TABLES@", tablesOf(report));
  fill(page, "@SUMMARY@", summaryOf(report));
  return page;
}

} // namespace kiln::autotune
