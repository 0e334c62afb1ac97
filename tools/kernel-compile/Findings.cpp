// See Findings.h.
#include "tools/kernel-compile/Findings.h"

#include "codegen/backend/FormatPrintable.h"
#include "tools/kernel-compile/Terminal.h"

#include <algorithm>

namespace kiln::tool {

static const char* word(Finding::State state) {
  switch (state) {
  case Finding::State::found:
    return "found";
  case Finding::State::missing:
    return "missing";
  case Finding::State::broken:
    return "broken";
  }
  return "";
}

static Style styleOf(Finding::State state) {
  return state == Finding::State::found     ? Style::good
         : state == Finding::State::missing ? Style::warn
                                            : Style::bad;
}

/// The lines of a detail, each of the later ones behind `indent` blanks.
static std::string indented(std::string_view text, std::size_t indent) {
  std::string out;
  for (std::size_t end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    out += printable(text.substr(0, end)) + "\n" + std::string(indent, ' ');
    text.remove_prefix(end + 1);
  }
  return out + printable(text);
}

std::string textOf(const std::vector<Finding>& findings) {
  std::size_t width = 0;
  for (const Finding& finding : findings)
    width = std::max(width, finding.name.size());
  constexpr std::size_t ofState = 11; // with the blanks around it
  std::string out;
  for (const Finding& finding : findings) {
    out += fmt::format("{:<{}}  {}  {}\n", finding.name, width,
                       styled(styleOf(finding.state), fmt::format("{:<7}", word(finding.state))),
                       indented(finding.detail, width + ofState));
    if (!finding.cost.empty())
      out += fmt::format("{:<{}}{}\n", "", width + ofState,
                         styled(Style::dim, printable(finding.cost)));
  }
  return out;
}

nlohmann::ordered_json toJson(const std::vector<Finding>& findings) {
  auto json = nlohmann::ordered_json::array();
  for (const Finding& finding : findings)
    json.push_back({{"name", finding.name},
                    {"state", word(finding.state)},
                    {"detail", finding.detail},
                    {"cost", finding.cost}});
  return json;
}

bool hasBroken(const std::vector<Finding>& findings) {
  return std::ranges::any_of(findings,
                             [](const Finding& f) { return f.state == Finding::State::broken; });
}

} // namespace kiln::tool
