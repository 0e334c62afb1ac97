// Reports as Markdown for documentation, as CSV for spreadsheets and as JSON for programs.
#include "autotune/report/Report.h"
#include "kiln/kiln.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace kiln::autotune {
namespace {

using Json = nlohmann::ordered_json;

std::string numberOf(double value) {
  return value > 0 ? fmt::format("{:.2f}", value) : "-";
}

/// A bar would end a cell, and a bracket begins what a page takes for its own.
std::string cellOf(std::string_view given) {
  std::string text = printable(given);
  for (std::size_t at = 0; (at = text.find_first_of("|<", at)) != std::string::npos; at += 2)
    text.insert(at, 1, '\\');
  return text;
}

std::string fieldOf(std::string_view given) {
  std::string text = printable(given);
  if (text.find_first_of("\",") == std::string::npos)
    return text;
  for (std::size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2)
    text.insert(at, 1, '"');
  return '"' + text + '"';
}

Json toJson(const Figure& figure) {
  if (!figure.isKnown())
    return nullptr;
  Json json = {{"value", figure.middle}};
  if (figure.low > 0)
    json.update({{"low", figure.low}, {"high", figure.high}});
  return json;
}

Json knownOrNull(double value) {
  return value > 0 ? Json(value) : Json();
}

Json toJson(const Line& line) {
  return {{"key", line.key},
          {"label", line.label},
          {"arch", line.arch},
          {"device", line.device},
          {"source", line.source},
          {"schedule", line.schedule},
          {"reason", line.reason},
          {"chosen_us", toJson(line.chosen)},
          {"default_us", toJson(line.standard)},
          {"ratio_to_default", toJson(line.ratio)},
          {"vendor_us", toJson(line.vendor)},
          {"vendor", line.provider},
          {"copy_us", toJson(line.copy)},
          {"roofline_us", knownOrNull(line.roofline)},
          {"roofline_limit", line.rooflineLimit.empty() ? Json() : Json(line.rooflineLimit)},
          {"share_of_roofline", knownOrNull(line.shareOfRoofline())},
          {"bytes", knownOrNull(line.bytes)},
          {"feasible", line.feasible},
          {"tried", line.tried},
          {"place_by_model", line.place < 0 ? Json() : Json(line.place)},
          {"predicted_us", knownOrNull(line.predicted)},
          {"best_eight_over_best", knownOrNull(line.eight)},
          {"best_so_far", line.progress}};
}

Json toJson(Report::Share share) {
  return {{"count", share.count}, {"known", share.known}};
}

} // namespace

/// Bytes are what limits most and not named.
static std::string rooflineText(const Line& line) {
  if (line.shareOfRoofline() <= 0)
    return "-";
  const bool isNamed = !line.rooflineLimit.empty() && line.rooflineLimit != "bytes";
  return fmt::format("{:.0f} %{}", 100 * line.shareOfRoofline(),
                     isNamed ? fmt::format(" ({})", line.rooflineLimit) : "");
}

std::vector<std::string> titles() {
  return {"what",      "µs",      "95 %",        "default µs", "speed-up",
          "vendor µs", "copy µs", "of roofline", "tried",      "source"};
}

std::vector<std::string> cells(const Line& line) {
  const bool hasInterval = line.chosen.isKnown();
  return {line.label,
          numberOf(line.chosen.middle),
          hasInterval ? fmt::format("{:.2f}..{:.2f}", line.chosen.low, line.chosen.high) : "-",
          numberOf(line.standard.middle),
          line.speedUp() > 0 ? fmt::format("{:.3f}", line.speedUp()) : "-",
          numberOf(line.vendor.middle),
          numberOf(line.copy.middle),
          rooflineText(line),
          line.feasible > 0 ? fmt::format("{} of {}", line.tried, line.feasible) : "-",
          line.source};
}

std::string renderMarkdown(const Report& report) {
  std::string text;
  const Line* before = nullptr;
  for (const Line& line : report.lines) {
    if (!before || before->device != line.device || before->arch != line.arch)
      text += fmt::format(
          "{}**{}** ({})\n\n| {} |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---|"
          "\n",
          before ? "\n" : "", cellOf(line.device), cellOf(line.arch), fmt::join(titles(), " | "));
    std::vector<std::string> row = cells(line);
    for (std::string& cell : row)
      cell = cellOf(cell);
    text += fmt::format("| {} |\n", fmt::join(row, " | "));
    before = &line;
  }
  text += before ? "\n" : "";
  for (const auto& [what, value] : report.summary())
    text += fmt::format("- {}: {}\n", what, value);
  return text;
}

std::string renderCsv(const Report& report) {
  std::string text =
      "key,label,arch,device,source,chosen_us,chosen_low,chosen_high,default_us,ratio,ratio_low,"
      "ratio_high,vendor_us,vendor,copy_us,roofline_us,roofline_limit,bytes,feasible,tried,place_"
      "by_model,"
      "predicted_us,best_eight_over_best,schedule,reason\n";
  auto number = [](double value) { return value > 0 ? fmt::format("{:.6g}", value) : ""; };
  for (const Line& line : report.lines) {
    const std::string row[] = {line.key,
                               line.label,
                               line.arch,
                               line.device,
                               line.source,
                               number(line.chosen.middle),
                               number(line.chosen.low),
                               number(line.chosen.high),
                               number(line.standard.middle),
                               number(line.ratio.middle),
                               number(line.ratio.low),
                               number(line.ratio.high),
                               number(line.vendor.middle),
                               line.provider,
                               number(line.copy.middle),
                               number(line.roofline),
                               line.rooflineLimit,
                               number(line.bytes),
                               std::to_string(line.feasible),
                               std::to_string(line.tried),
                               line.place < 0 ? "" : std::to_string(line.place),
                               number(line.predicted),
                               number(line.eight),
                               line.schedule,
                               line.reason};
    for (const std::string& cell : row)
      text += (&cell == row ? "" : ",") + fieldOf(cell);
    text += "\n";
  }
  return text;
}

std::string renderJson(const Report& report) {
  Json json = {{"version", report.version}, {"store", report.store}, {"lines", Json::array()}};
  for (const Line& line : report.lines)
    json["lines"].push_back(toJson(line));
  json["summary"] = {{"choices", report.lines.size()},
                     {"speed_up_over_default", knownOrNull(report.speedUp())},
                     {"default_within_1.10_of_choice", toJson(report.defaultsNearChoice())},
                     {"model_best_eight_within_3_percent", toJson(report.modelsNearBest())},
                     {"faster_than_vendor", toJson(report.fasterThanVendor())}};
  return json.dump(2, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

} // namespace kiln::autotune
