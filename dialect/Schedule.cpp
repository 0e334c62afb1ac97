// Schedules as text and as attributes; see Schedule.h.
#include "dialect/Schedule.h"

#include "dialect/DidYouMean.h"
#include "dialect/Kiln.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/StringExtras.h"

#include <bitset>

using namespace mlir;

namespace kiln {

static constexpr llvm::StringLiteral kPrefix = "#kiln.schedule";

static StringRef nameOf(const Knob& knob) {
  return {knob.name.data(), knob.name.size()};
}

/// "<lanes = 16, ...>"
static std::string bodyOf(const Schedule& schedule) {
  const ScheduleForm& form = *schedule.form;
  std::string text = form.isImplied ? "" : std::string(form.family);
  for (auto [knob, value] : llvm::zip_first(form.knobs, schedule.values)) {
    if (knob.optional && value == knob.usual)
      continue;
    text += (text.empty() ? "" : ", ") + std::string(knob.name) + " = ";
    text += knob.words.empty() ? std::to_string(value) : std::string(knob.words[value]);
  }
  return "<" + text + ">";
}

std::string toText(const Schedule& schedule) {
  return kPrefix.str() + bodyOf(schedule);
}

std::optional<Schedule> ofText(const ScheduleForm& form, std::string_view text) {
  StringRef rest(text.data(), text.size());
  if (!rest.consume_front(kPrefix) || !rest.consume_front("<") || !rest.consume_back(">"))
    return std::nullopt;
  SmallVector<StringRef, Schedule::mostKnobs> settings;
  rest.split(settings, ", ");
  Schedule schedule{&form};
  for (auto [knob, value] : llvm::zip_first(form.knobs, schedule.values))
    value = knob.usual;
  for (StringRef setting : settings) {
    const auto [name, word] = setting.split(" = ");
    const auto knob =
        llvm::find_if(form.knobs, [&](const Knob& known) { return nameOf(known) == name; });
    if (knob == form.knobs.end())
      continue; // the family, or nothing that the comparison below lets pass
    std::int32_t& value = schedule.values[knob - form.knobs.begin()];
    const auto found = llvm::find(knob->words, std::string_view(word));
    if (knob->words.empty() ? word.getAsInteger(10, value) : found == knob->words.end())
      return std::nullopt;
    if (!knob->words.empty())
      value = static_cast<std::int32_t>(found - knob->words.begin());
  }
  if (toText(schedule) != text)
    return std::nullopt;
  return schedule;
}

llvm::hash_code hash_value(const Schedule& schedule) {
  return llvm::hash_combine(
      schedule.form, llvm::hash_combine_range(schedule.values.begin(), schedule.values.end()));
}

namespace ir {

namespace {

/// "; there are lanes and vector; did you mean 'lanes'?"
std::string hint(StringRef word, ArrayRef<StringRef> known) {
  return "; there are " + llvm::join(known, ", ") + didYouMean(word, known);
}

/// Reads one schedule, whose first bracket has been read.
class ScheduleParser {
 public:
  ScheduleParser(AsmParser& parser, ArrayRef<const ScheduleForm*> forms)
      : parser(parser), forms(forms) {}

  FailureOr<Schedule> parse() {
    StringRef word;
    SMLoc at = parser.getCurrentLocation();
    if (parser.parseKeyword(&word))
      return failure();
    const bool isKnob = succeeded(parser.parseOptionalEqual());
    if (failed(findForm(isKnob ? StringRef() : word, at)))
      return failure();
    if (isKnob && failed(parseValue(word, at)))
      return failure();
    while (succeeded(parser.parseOptionalComma())) {
      at = parser.getCurrentLocation();
      if (parser.parseKeyword(&word) || parser.parseEqual() || failed(parseValue(word, at)))
        return failure();
    }
    if (!isComplete(at))
      return failure();
    return schedule;
  }

 private:
  /// Not by the parser, which would begin with the name of the operation that is being parsed.
  InFlightDiagnostic error(SMLoc at, const Twine& text) {
    return emitError(parser.getEncodedSourceLoc(at), text);
  }

  /// The family of that word; without one, the family that texts do not name.
  LogicalResult findForm(StringRef word, SMLoc at) {
    SmallVector<StringRef> words;
    for (const ScheduleForm* form : forms) {
      words.push_back({form->family.data(), form->family.size()});
      if (word.empty() ? form->isImplied : words.back() == word)
        schedule.form = form;
    }
    if (schedule.form)
      return success();
    return error(at, "unknown family of kernels '") << word << "'" << hint(word, words);
  }

  LogicalResult parseValue(StringRef name, SMLoc at) {
    SmallVector<StringRef> names;
    for (auto [i, knob] : llvm::enumerate(schedule.form->knobs)) {
      names.push_back(nameOf(knob));
      if (names.back() != name)
        continue;
      if (seen.test(i))
        return error(at, "'") << name << "' is given twice";
      seen.set(i);
      return knob.words.empty() ? parseNumber(i) : parseWord(knob, i);
    }
    return error(at, "unknown knob '") << name << "'" << hint(name, names);
  }

  LogicalResult parseNumber(size_t i) {
    const SMLoc at = parser.getCurrentLocation();
    int64_t value = 0;
    if (parser.parseInteger(value))
      return failure();
    if (value < 0 || value > std::numeric_limits<int32_t>::max())
      return error(at, "") << value << " is no value of a knob; 0 to 2^31 - 1 are";
    schedule.values[i] = static_cast<int32_t>(value);
    return success();
  }

  LogicalResult parseWord(const Knob& knob, size_t i) {
    const SMLoc at = parser.getCurrentLocation();
    StringRef word;
    if (parser.parseKeyword(&word))
      return failure();
    SmallVector<StringRef> words;
    for (auto [value, known] : llvm::enumerate(knob.words)) {
      words.push_back({known.data(), known.size()});
      if (words.back() != word)
        continue;
      schedule.values[i] = static_cast<int32_t>(value);
      return success();
    }
    return error(at, "'") << word << "' is no value of '" << nameOf(knob) << "'"
                          << hint(word, words);
  }

  bool isComplete(SMLoc at) {
    for (auto [i, knob] : llvm::enumerate(schedule.form->knobs)) {
      if (seen.test(i))
        continue;
      if (!knob.optional)
        return error(at, "a schedule needs a value of '") << nameOf(knob) << "'", false;
      schedule.values[i] = knob.usual;
    }
    return true;
  }

  AsmParser& parser;
  ArrayRef<const ScheduleForm*> forms;
  Schedule schedule;
  std::bitset<Schedule::mostKnobs> seen;
};

} // namespace

Attribute ScheduleAttr::parse(AsmParser& parser, Type) {
  const SMLoc at = parser.getCurrentLocation();
  if (parser.parseLess())
    return {};
  const auto* families =
      parser.getContext()->getLoadedDialect<KilnDialect>()->getRegisteredInterface<ScheduleForms>();
  if (!families)
    return parser.emitError(at, "a schedule, but no family of kernels is registered"), Attribute();
  FailureOr<Schedule> schedule = ScheduleParser(parser, families->all()).parse();
  if (failed(schedule) || parser.parseGreater())
    return {};
  return parser.getChecked<ScheduleAttr>(at, parser.getContext(), *schedule);
}

void ScheduleAttr::print(AsmPrinter& printer) const {
  printer << bodyOf(getSchedule());
}

LogicalResult ScheduleAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                                   Schedule schedule) {
  const std::string problem = schedule.form->problemOf(schedule);
  return problem.empty() ? success() : emitError() << problem;
}

} // namespace ir
} // namespace kiln
