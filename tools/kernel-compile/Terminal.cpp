// Colours, output and complaints; see Terminal.h for what is promised to pipes and files.
#include "tools/kernel-compile/Terminal.h"

#include "kiln/kiln.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/ioctl.h>
#include <unistd.h>

namespace kiln::tool {

namespace {

bool colours(int descriptor) {
  const char* off = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  bool dumb = terminal == nullptr || std::strcmp(terminal, "dumb") == 0;
  return (off == nullptr || *off == '\0') && !dumb && isatty(descriptor) != 0;
}

constexpr const char* kPlain = "\033[0m";

const char* codeOf(Style style) {
  switch (style) {
  case Style::plain:
    return "";
  case Style::bold:
    return "\033[1m";
  case Style::dim:
    return "\033[2m";
  case Style::good:
    return "\033[32m";
  case Style::warn:
    return "\033[33m";
  case Style::bad:
    return "\033[31m";
  }
  return "";
}

/// The first of these codes in a text, or their end; empty: it has none.
std::string_view firstStyle(std::string_view text) {
  std::string_view first;
  for (std::string_view code : {kPlain, codeOf(Style::bold), codeOf(Style::dim),
                                codeOf(Style::good), codeOf(Style::warn), codeOf(Style::bad)})
    if (std::size_t at = text.find(code);
        at != text.npos && (first.empty() || text.data() + at < first.data()))
      first = text.substr(at, code.size());
  return first;
}

} // namespace

std::string styled(Style style, std::string_view text) {
  static const bool on = colours(STDOUT_FILENO);
  if (!on || style == Style::plain)
    return std::string(text);
  return codeOf(style) + printable(text, true) + kPlain;
}

std::size_t columns() {
  if (isatty(STDOUT_FILENO) == 0)
    return 0;
  const char* wanted = std::getenv("COLUMNS");
  if (const int count = wanted ? std::atoi(wanted) : 0; count > 0)
    return static_cast<std::size_t>(count);
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void print(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::string_view style = firstStyle(text);
    const std::size_t end = style.empty() ? text.size() : std::size_t(style.data() - text.data());
    shown += printable(text.substr(0, end), true);
    shown += style;
    text.remove_prefix(end + style.size());
  }
  printBytes(shown);
}

void printBytes(std::string_view text) {
  bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0)
    return;
  if (errno == EPIPE)
    throw ClosedPipe();
  throw Error(ErrorKind::io,
              fmt::format("cannot write to the standard output: {}", std::strerror(errno)));
}

void printJson(const nlohmann::ordered_json& json) {
  print(json.dump(2, ' ', /*ensure_ascii=*/true, nlohmann::ordered_json::error_handler_t::replace) +
        "\n");
}

static void tell(Style style, const char* kind, std::string_view text) {
  bool colour = colours(STDERR_FILENO);
  const std::string line = fmt::format("kernel-compile: {}{}:{} {}\n", colour ? codeOf(style) : "",
                                       kind, colour ? kPlain : "", printable(text, true));
  std::fputs(line.c_str(), stderr); // a closed standard error is no reason to fail
}

void complain(std::string_view text) {
  tell(Style::bad, "error", text);
}

void advise(std::string_view text) {
  std::fputs((printable(text, true) + "\n").c_str(), stderr);
}

void warn(std::string_view text) {
  tell(Style::warn, "warning", text);
}

std::string grouped(long long number) {
  std::string digits = std::to_string(number);
  std::size_t first = number < 0 ? 1 : 0;
  for (std::size_t i = digits.size(); i > first + 3;)
    digits.insert(i -= 3, ",");
  return digits;
}

} // namespace kiln::tool
