// How a run is going: a line that is rewritten in place on a terminal and repeated elsewhere, lines
// that stay, and lines of JSON in a file.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace kiln::models {

class ProgressLine {
 public:
  /// Appends to `log`. Throws Error(io) if it cannot be written to. What does not speak, such as a
  /// rank that is not the first, writes and shows nothing.
  explicit ProgressLine(const std::filesystem::path& log, bool speaks = true);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const std::string& line);
  /// A line that stays.
  void say(const std::string& text);
  /// A line of the file.
  void note(const std::string& json);

  bool onTerminal() const { return isTerminal; }

 private:
  bool speaks, isTerminal;
  bool isOpen = false; // a line is on the terminal that will be rewritten
  std::ofstream log;
};

} // namespace kiln::models
