// What a store knows, for people who want to see it whole: one line a choice, and what the lines
// say together. Nothing is run or compiled for it.
#pragma once

#include "autotune/store/Merge.h"

namespace kiln::autotune {

/// Microseconds with their 95 % interval.
struct Figure {
  double middle = 0, low = 0, high = 0;
  bool isKnown() const { return middle > 0; }
};

struct Line {
  std::string key, label, arch, device, source, schedule, reason;
  Figure chosen, ratio; // the latter to the default's time
  Figure standard;      // the default's time; without an interval where only the ratio is known
  Figure vendor, copy;
  std::string provider;                 // of the vendor's time
  double roofline = 0, bytes = 0;       // microseconds; 0: not known
  std::string rooflineLimit;            // as of a Prediction; empty: not known
  std::int64_t feasible = 0, tried = 0; // schedules
  std::int64_t place = -1;              // of the choice by the cost model, 0 is the cheapest
  double predicted = 0;                 // its time, by the cost model
  /// The best of the model's best eight over the best of all; 0: none of them was timed; negative:
  /// not known.
  double eight = -1;
  std::vector<std::pair<double, double>> progress; // seconds, best time until then

  double shareOfRoofline() const { return chosen.isKnown() ? roofline / chosen.middle : 0; }
  double speedUp() const { return ratio.isKnown() ? 1 / ratio.middle : 0; }
};

inline constexpr double kNearChoice = 1.10; // times that of the choice
inline constexpr double kNearBest = 1.03;

struct Report {
  std::string store, version; // the latter is Kiln's
  std::vector<Line> lines;    // by device, then label

  /// How many lines have a property, of those of which it is known.
  struct Share {
    std::size_t count = 0, known = 0;
  };
  Share defaultsNearChoice() const;
  Share modelsNearBest() const;
  Share fasterThanVendor() const; // beyond the intervals
  double speedUp() const;         // over the default: geometric mean; 0: of none
  std::vector<std::pair<std::string, std::string>> summary() const; // what, how much
};

Report reportOf(const Store& store, const Selection& selection);

/// `format`: markdown, csv, json or html. Throws Error(input).
std::string render(const Report& report, std::string_view format);

std::string renderMarkdown(const Report& report);
std::string renderCsv(const Report& report);
std::string renderJson(const Report& report);
/// One file that needs nothing else: tables, and charts that its script draws.
std::string renderHtml(const Report& report);

/// The cells of a line as text, the same in Markdown and on the page.
std::vector<std::string> titles();
std::vector<std::string> cells(const Line& line);

} // namespace kiln::autotune
