// What a person sees: aligned tables, a little colour, a progress line. Colour and progress appear
// on a terminal only, and never when NO_COLOR (colour) is set; pipes and files get plain text. What
// cells, messages and documents hold may come from a stranger's store: control characters are
// written as "\x1b" (codegen/backend/Printable.h).
#pragma once

#include <cstddef>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::tool {

enum class Style { plain, bold, dim, good, warn, bad };

/// `text` in that style if the standard output takes colours.
std::string styled(Style style, std::string_view text);

class Table {
 public:
  enum class Align { left, right };
  void column(std::string title, Align align = Align::right);
  void row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  std::string text() const; // with a bold header; ends with a line feed

 private:
  std::vector<std::string> titles_;
  std::vector<Align> aligns_;
  std::vector<std::vector<std::string>> rows_;
};

/// One line on the standard error that is rewritten, cleared at the end. Any thread may step.
class Progress {
 public:
  Progress(std::size_t total, bool wanted);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void step(std::string_view label);

 private:
  std::mutex mutex_;
  std::size_t total_;
  std::size_t done_ = 0;
  bool shown_;
};

/// The same with any text, which is cut to the terminal's width.
class StatusLine {
 public:
  explicit StatusLine(bool wanted);
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;
  void show(std::string_view text);
  bool isShown() const { return shown_; }

 private:
  bool shown_;
};

/// Writes to the standard output and throws kiln::Error(io) if that fails (a full disk, say). Of
/// what terminals obey only line feeds and the styles above pass: labels and names come from files.
void print(std::string_view text);
/// The same as it is, for what was asked for as a file: a cubin, generated text.
void printBytes(std::string_view bytes);
/// A document as --json prints it: in ASCII, whatever names and labels hold.
void printJson(const nlohmann::ordered_json& json);
/// One line "kernel-compile: error: ..." on the standard error; `text` may hold several lines.
void complain(std::string_view text);
/// The same with "warning:": nothing failed.
void warn(std::string_view text);

/// 65,536
std::string grouped(long long number);

} // namespace kiln::tool
