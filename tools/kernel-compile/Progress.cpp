// See Progress.h.
#include "tools/kernel-compile/Progress.h"

#include "kiln/kiln.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace kiln::tool {

namespace {

void put(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

} // namespace

std::string durationText(double seconds) {
  if (seconds < 90)
    return fmt::format("{:.0f} s", seconds);
  return seconds < 90 * 60 ? fmt::format("{:.0f} min", seconds / 60)
                           : fmt::format("{:.1f} h", seconds / 3600);
}

std::string timesText(double elapsed, double left) {
  return ", " + durationText(elapsed) +
         (left < 0 ? "" : fmt::format(", about {} left", durationText(left)));
}

StatusLine::StatusLine(bool wanted) : shown_(wanted && isatty(STDERR_FILENO) != 0) {
  if (shown_)
    ticker_ = std::thread([this] { tick(); });
}

StatusLine::~StatusLine() {
  if (!shown_)
    return;
  {
    std::lock_guard lock(mutex_);
    isEnding_ = true;
  }
  ended_.notify_all();
  ticker_.join();
  put("\r\033[K");
}

double StatusLine::elapsed() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void StatusLine::show(std::string_view text, double secondsLeft) {
  if (!shown_)
    return;
  std::lock_guard lock(mutex_);
  text_ = printable(text);
  end_ = secondsLeft < 0 ? -1 : elapsed() + secondsLeft;
  draw();
}

void StatusLine::show(std::size_t done, std::size_t total, std::string_view label) {
  const auto left = static_cast<double>(total - std::min(done, total));
  show(fmt::format("[{}/{}]{}{}", done, total, label.empty() ? "" : " ", label),
       done == 0 ? -1 : elapsed() / static_cast<double>(done) * left);
}

void StatusLine::draw() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  const std::size_t width = known ? size.ws_col - 1 : 79; // a line that wraps cannot be rewritten
  const double now = elapsed();
  const std::string times = timesText(now, end_ < 0 ? -1 : std::max(0.0, end_ - now));
  const std::string text = text_.substr(0, width - std::min(width, times.size()));
  put("\r\033[K" + (text + times).substr(0, width));
}

void StatusLine::tick() {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, std::chrono::seconds(1), [this] { return isEnding_; }))
    if (!text_.empty())
      draw();
}

Progress::Progress(std::size_t total, bool wanted) : total_(total), line_(wanted && total > 1) {
  line_.show(0, total_, "");
}

void Progress::step(std::string_view label) {
  std::lock_guard lock(mutex_);
  line_.show(++done_, total_, label);
}

} // namespace kiln::tool
