// One line on the standard error that says how far long work is, for how long it has been going on
// and about how long it will take. On a terminal only; it is cleared at the end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace kiln::tool {

/// "12 s", "3 min", "1.5 h".
std::string durationText(double seconds);
/// ", 12 s, about 40 s left"; a negative number of seconds is not known and left out.
std::string timesText(double elapsed, double left);

/// A line that is rewritten, cut to the terminal's width; its times go on between two texts. Any
/// thread may show one.
class StatusLine {
 public:
  explicit StatusLine(bool wanted);
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;
  void show(std::string_view text, double secondsLeft = -1);
  /// "[3/31] label": of steps that take about the same time.
  void show(std::size_t done, std::size_t total, std::string_view label);
  bool isShown() const { return shown_; }
  double elapsed() const; // seconds since it was made

 private:
  void draw(); // with the mutex held
  void tick();

  bool shown_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable ended_;
  bool isEnding_ = false;
  std::string text_;
  double end_ = -1; // when the work is expected to be done, in seconds since the start
  std::thread ticker_;
};

/// So many steps of about the same length.
class Progress {
 public:
  Progress(std::size_t total, bool wanted);
  void step(std::string_view label);

 private:
  std::mutex mutex_;
  std::size_t total_;
  std::size_t done_ = 0;
  StatusLine line_;
};

} // namespace kiln::tool
