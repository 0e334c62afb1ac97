// See ProgressLine.h.
#include "models/common/ProgressLine.h"

#include "models/common/Fail.h"

#include <cstdio>
#include <unistd.h>

namespace kiln::models {

ProgressLine::ProgressLine(const std::filesystem::path& path, bool speaks)
    : speaks(speaks), isTerminal(isatty(STDOUT_FILENO) != 0) {
  if (!speaks)
    return;
  log.open(path, std::ios::app);
  if (!log)
    fail(ErrorKind::io, "{} cannot be written to", path.string());
}

ProgressLine::~ProgressLine() {
  if (isOpen)
    std::puts("");
}

void ProgressLine::show(const std::string& line) {
  if (!speaks)
    return;
  std::printf(isTerminal ? "\r\033[K%s" : "%s\n", line.c_str());
  std::fflush(stdout);
  isOpen = isTerminal;
}

void ProgressLine::say(const std::string& text) {
  if (!speaks)
    return;
  std::printf("%s%s\n", isOpen ? "\n" : "", text.c_str());
  std::fflush(stdout);
  isOpen = false;
}

void ProgressLine::note(const std::string& json) {
  if (speaks)
    log << json << std::endl;
}

} // namespace kiln::models
