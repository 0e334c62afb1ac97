// See AttentionText.h.
#include "test/numerics/AttentionText.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kiln::test {

static std::string size(int value) {
  return value == 0 ? "?" : std::to_string(value);
}

std::string AttentionText::shape(std::initializer_list<int> last) const {
  std::string text;
  for (int d : leading)
    text += size(d) + "x";
  for (int d : last)
    text += size(d) + "x";
  return text;
}

std::string AttentionText::rows(int heads, int rows, int width) const {
  return "tensor<" + shape({heads, rows, width}) + type + ">";
}

AttentionText::Operands AttentionText::operands() const {
  const std::string layout =
      queryLayout.empty() ? "" : " {kiln.layout = #kiln.layout<" + queryLayout + ">}";
  const std::string others = layoutOfAll ? layout : "";
  Operands all;
  const auto add = [&](const std::string& word, const std::string& name, const std::string& type,
                       const std::string& layout = "") {
    all.arguments.push_back("%" + name + ": " + type + layout);
    all.types.push_back(type);
    all.names += word + "%" + name;
  };
  add("", "q", rows(heads, queries, width), layout);
  add(", ", "k", rows(keyHeads, keys, width), others);
  add(", ", "v", rows(keyHeads, keys, valueWidth), others);
  if (!bias.empty())
    add(" bias ", "b", "tensor<" + bias + "x" + biasType + ">");
  if (!mask.empty())
    add(" mask ", "m", "tensor<" + mask + "xi1>");
  if (sequences > 0) {
    const std::string starts = fmt::format("tensor<{}xi32>", sequences + 1);
    add(" starts ", "qs", starts);
    add(", ", "ks", starts);
  }
  if (p > 0) {
    add(" dropout ", "seed", "tensor<i64>");
    add(", ", "offset", "tensor<i64>");
    all.names += fmt::format(" p {:e}", p);
  }
  return all;
}

std::string AttentionText::text(const Behind& behind) const {
  const Operands all = operands();
  const std::string lse = "tensor<" + shape({heads, queries}) + "f32>";
  std::vector<std::string> arguments = all.arguments, names = behind.names, types = behind.types;
  arguments.insert(arguments.end(), behind.arguments.begin(), behind.arguments.end());
  names.push_back("%lse");
  types.push_back(lse);
  return fmt::format("func.func @attention({}) -> ({}) {{\n  %o, %lse = kiln.attention {} {{{}}} "
                     ": ({}) -> ({}, {})\n{}  return {} : {}\n}}\n",
                     fmt::join(arguments, ", "), fmt::join(types, ", "), all.names, attributes,
                     fmt::join(all.types, ", "), output(), lse, behind.lines,
                     fmt::join(names, ", "), fmt::join(types, ", "));
}

std::string AttentionText::gradients(bool ofQueries) const {
  const Operands all = operands();
  const std::string d = rows(heads, queries, valueWidth);
  const std::string numbers = "tensor<" + shape({heads, queries}) + "f32>";
  const char* words[] = {"query", "key", "value", "bias"};
  const std::string of[] = {rows(heads, queries, width), rows(keyHeads, keys, width),
                            rows(keyHeads, keys, valueWidth), "tensor<" + bias + "xf32>"};
  std::vector<std::string> names, types, results;
  for (int i = ofQueries ? 0 : 1; i < (bias.empty() ? 3 : 4); ++i) {
    names.push_back(fmt::format("%d{}", words[i]));
    types.push_back(of[i]);
    results.push_back(fmt::format("{} {}", words[i], of[i]));
  }
  return fmt::format("func.func @gradients(%d: {0}, %delta: {1}, %lse: {1}, {2}) -> ({3}) {{\n"
                     "  {4} = kiln.attention_backward %d, %delta, %lse, {5} {{{6}}} : "
                     "({0}, {1}, {1}, {7}) -> {8}\n"
                     "  return {4} : {3}\n}}\n",
                     d, numbers, fmt::join(all.arguments, ", "), fmt::join(types, ", "),
                     fmt::join(names, ", "), all.names, attributes, fmt::join(all.types, ", "),
                     fmt::join(results, " "));
}

std::string HeldTiles::text() const {
  return fmt::format("#kiln.schedule<attention, queries = {}, keys = {}, stages = {}, blocks = 1, "
                     "launch = programmatic, groups = {}, products = {}, bias = {}, side = {}>",
                     queries, keys, stages, groups, products, bias, side);
}

} // namespace kiln::test
