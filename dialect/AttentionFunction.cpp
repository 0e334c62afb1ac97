// The function of kiln.attention for a shape, [batch x ...] heads x queries x width, and settings:
// what is not said is as in ATen's scaled_dot_product_attention.
#include "dialect/Attention.h"
#include "dialect/OpFunction.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <cstdio>
#include <optional>

using namespace llvm;

namespace kiln::ir {
namespace {

constexpr OpFunction::Setting kSettings[] = {
    {"causal", "first or last, the rows that are aligned"},
    {"window_left", "a number of keys"},
    {"window_right", "a number of keys"},
    {"softcap", "a positive number"},
    {"scale", "a number; 1 / sqrt(width) if it is not given"},
    {"bias", "own (of each head), shared (by the leading sizes) or keys (a row a sequence)"},
    {"mask", "own, shared or keys, as of bias"},
    {"keys", "a number of rows, or ?; as many as queries if it is not given"},
    {"key_heads", "a number that divides the heads"},
    {"value_width", "a width; that of queries if it is not given"},
    {"dropout", "a probability"},
    {"sequences", "a number of packed sequences, of a shape without leading sizes"}};

std::string numberText(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9e", value);
  return text;
}

/// The text of one function.
class Writer {
 public:
  explicit Writer(const OpRequest& request) : request(request) {}

  Expected<std::string> write() {
    if (request.shape.size() < 3)
      return refusal(request,
                     "with shape '" + sizesText(request.shape) +
                         "': give heads x queries x width, with leading sizes before them if there "
                         "are some, such as 8x16x4096x64");
    readSizes();
    addArgument("q", concat(heads, rows, width), request.element);
    addArgument("k", concat(keyHeads, keys, width), request.element);
    addArgument("v", concat(keyHeads, keys, valueWidth), request.element);
    addOfScores("bias", "b", request.element);
    addOfScores("mask", "m", "i1");
    addSequences();
    addDropout();
    addAttributes();
    if (!problem.empty())
      return refusal(request, problem);
    return text();
  }

 private:
  std::optional<StringRef> valueOf(StringRef name) const {
    for (const auto& [given, value] : request.settings)
      if (given == name)
        return StringRef(value);
    return std::nullopt;
  }
  /// The first problem is told.
  void refuse(StringRef name, StringRef value) {
    if (!problem.empty())
      return;
    const auto* setting = find_if(kSettings, [&](const auto& s) { return s.name == name; });
    problem = ("with " + name + "=" + value + ": allowed is " + setting->allowed).str();
  }
  int64_t count(StringRef name, int64_t otherwise, bool mayBeOpen = false) {
    const std::optional<StringRef> value = valueOf(name);
    int64_t number = -1;
    if (!value)
      return otherwise;
    if (mayBeOpen && *value == "?")
      return -1;
    if (value->getAsInteger(10, number) || number < 0)
      refuse(name, *value);
    return number;
  }
  std::optional<double> number(StringRef name) {
    const std::optional<StringRef> value = valueOf(name);
    double number = 0;
    if (!value)
      return std::nullopt;
    if (value->getAsDouble(number) || !std::isfinite(number))
      refuse(name, *value);
    return number;
  }
  std::optional<StringRef> word(StringRef name, ArrayRef<StringRef> words) {
    const std::optional<StringRef> value = valueOf(name);
    if (value && !is_contained(words, *value))
      refuse(name, *value);
    return value;
  }

  void readSizes() {
    const ArrayRef<int64_t> last = ArrayRef(request.shape).take_back(3);
    leading.assign(request.shape.begin(), request.shape.end() - 3);
    heads = last[0], rows = last[1], width = last[2];
    keyHeads = count("key_heads", heads);
    keys = count("keys", rows, /*mayBeOpen=*/true);
    valueWidth = count("value_width", width);
  }
  template <class... Last> std::vector<int64_t> concat(Last... last) const {
    std::vector<int64_t> shape = leading;
    (shape.push_back(last), ...);
    return shape;
  }

  void addArgument(StringRef name, ArrayRef<int64_t> shape, StringRef element,
                   StringRef before = "") {
    types.push_back(tensorText(shape, element));
    arguments.push_back(("%" + name + ": " + types.back()).str());
    operands += (before.empty() ? (operands.empty() ? "" : ", ") : before.str()) + "%" + name.str();
  }
  void addOfScores(StringRef name, StringRef argument, StringRef element) {
    const std::optional<StringRef> kind = word(name, {"own", "shared", "keys"});
    if (!kind)
      return;
    std::vector<int64_t> shape =
        *kind == "keys" ? concat(int64_t(1), int64_t(1), keys) : concat(heads, rows, keys);
    if (*kind == "shared")
      std::fill_n(shape.begin(), leading.size(), 1);
    addArgument(argument, shape, element, (" " + name + " ").str());
  }
  void addSequences() {
    if (!valueOf("sequences"))
      return;
    const int64_t starts = count("sequences", 0) + 1;
    addArgument("query_starts", starts, "i32", " starts ");
    addArgument("key_starts", starts, "i32");
  }
  void addDropout() {
    const std::optional<double> p = number("dropout");
    if (!p)
      return;
    addArgument("seed", {}, "i64", " dropout ");
    addArgument("offset", {}, "i64");
    operands += " p " + numberText(*p);
  }
  void addAttributes() {
    const double usual = 1.0 / std::sqrt(static_cast<double>(std::max<int64_t>(width, 1)));
    attributes = "scale = " + numberText(number("scale").value_or(usual)) + " : f32";
    if (const std::optional<double> softcap = number("softcap"))
      attributes += ", softcap = " + numberText(*softcap) + " : f32";
    if (const std::optional<StringRef> causal = word("causal", {"first", "last"}))
      attributes += (", causal = #kiln.causal<" + *causal + ">").str();
    for (StringRef window : {"window_left", "window_right"})
      if (valueOf(window))
        attributes += (", " + window + " = ").str() + std::to_string(count(window, 0));
  }

  /// lse is a statistic: a result without a gradient.
  std::string text() const {
    const std::string output = tensorText(concat(heads, rows, valueWidth), request.element);
    const std::string lse = tensorText(concat(heads, rows), "f32");
    return "func.func @attention(" + join(arguments, ", ") + ")\n    -> (" + output + ", " + lse +
           " {kiln.gradient = false}) {\n  %o, %lse = kiln.attention " + operands + " {" +
           attributes + "}\n      : (" + join(types, ", ") + ") -> (" + output + ", " + lse +
           ")\n  return %o, %lse : " + output + ", " + lse + "\n}\n";
  }

  const OpRequest& request;
  std::vector<int64_t> leading;
  int64_t heads = 0, keyHeads = 0, rows = 0, keys = 0, width = 0, valueWidth = 0;
  std::vector<std::string> arguments, types;
  std::string operands, attributes, problem;
};

class AttentionFunction final : public OpFunction {
 public:
  ArrayRef<Setting> settings() const override { return kSettings; }

  Expected<std::string> text(const OpRequest& request) const override {
    return Writer(request).write();
  }

  /// Leading sizes, queries and keys.
  std::vector<int64_t> open(OpRequest& request) const override {
    std::vector<int64_t> sizes;
    if (request.shape.size() < 3)
      return sizes;
    for (int64_t& size : MutableArrayRef(request.shape).drop_back(3))
      sizes.push_back(std::exchange(size, -1));
    int64_t& queries = request.shape.end()[-2];
    auto keys = find_if(request.settings, [](const auto& s) { return s.first == "keys"; });
    int64_t keyRows = queries;
    if (keys != request.settings.end()) {
      if (StringRef(keys->second).getAsInteger(10, keyRows))
        keyRows = -1;
      keys->second = "?";
    }
    sizes.push_back(std::exchange(queries, -1));
    sizes.push_back(keyRows);
    return sizes;
  }
};

} // namespace

const OpFunction* AttentionOp::asFunction() {
  static constexpr AttentionFunction function;
  return &function;
}

} // namespace kiln::ir
