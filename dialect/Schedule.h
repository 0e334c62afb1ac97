// How a kernel runs, as a few numbers: a value for each knob of the kernel's family. A family
// declares its knobs once, and the text of a schedule, its parser, equality and hashes follow from
// them. Plain C++; #kiln.schedule is this as an attribute.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kiln {

struct Schedule;

/// A number, or a choice between words, whose value is the place of the word.
struct Knob {
  std::string_view name;
  std::span<const std::string_view> words = {}; // empty: a number
  bool optional = false;                        // texts leave it out where it has the value `usual`
  std::int32_t usual = 0;                       // the value where a text leaves it out
};

/// The knobs of a family in the order of texts. There is one object a family, which lives as long
/// as the process: schedules point to it.
struct ScheduleForm {
  std::string_view family;
  bool isImplied = false; // texts do not name the family
  std::span<const Knob> knobs;
  /// What is wrong whatever the kernel and the target are, with its numbers; empty: nothing.
  std::string (*problemOf)(const Schedule& schedule) = nullptr;
};

struct Schedule {
  static constexpr std::size_t mostKnobs = 16;

  const ScheduleForm* form = nullptr;
  std::array<std::int32_t, mostKnobs> values{}; // in the order of form->knobs; then zeros

  bool operator==(const Schedule&) const = default;
};

/// "#kiln.schedule<lanes = 16, ...>", or "#kiln.schedule<family, knob = 4, ...>".
std::string toText(const Schedule& schedule);
/// The schedule of that form whose text this is, as toText() writes it; nothing: it is none.
std::optional<Schedule> ofText(const ScheduleForm& form, std::string_view text);

} // namespace kiln
