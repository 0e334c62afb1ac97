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

std::string AttentionText::text() const {
  const std::string q = "tensor<" + shape({heads, queries, width}) + type + ">";
  const std::string k = "tensor<" + shape({keyHeads, keys, width}) + type + ">";
  const std::string v = "tensor<" + shape({keyHeads, keys, valueWidth}) + type + ">";
  const std::string o = "tensor<" + shape({heads, queries, valueWidth}) + type + ">";
  const std::string lse = "tensor<" + shape({heads, queries}) + "f32>";
  const std::string layout =
      queryLayout.empty() ? "" : " {kiln.layout = #kiln.layout<" + queryLayout + ">}";
  const std::string others = layoutOfAll ? layout : "";
  std::vector<std::string> arguments{"%q: " + q + layout, "%k: " + k + others, "%v: " + v + others},
      types{q, k, v};
  std::string operands = "%q, %k, %v";
  const auto add = [&](const std::string& word, const std::string& name, const std::string& type) {
    arguments.push_back("%" + name + ": " + type);
    types.push_back(type);
    operands += word + "%" + name;
  };
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
    operands += fmt::format(" p {:e}", p);
  }
  return fmt::format(
      "func.func @attention({}) -> ({}, {}) {{\n  %o, %lse = kiln.attention {} {{{}}} "
      ": ({}) -> ({}, {})\n  return %o, %lse : {}, {}\n}}\n",
      fmt::join(arguments, ", "), o, lse, operands, attributes, fmt::join(types, ", "), o, lse, o,
      lse);
}

} // namespace kiln::test
