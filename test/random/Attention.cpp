// Drawing an attention and printing it.
#include "test/random/Attention.h"

#include "test/numerics/AttentionText.h"
#include "test/random/Draws.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kiln::test {
namespace {

constexpr std::int64_t mostPlaces = 90000; // of scores: a function takes some seconds of the host

class DrawingAttention : Draws {
 public:
  explicit DrawingAttention(std::uint64_t seed) : Draws(seed * 0x9e3779b97f4a7c15U + 7) {
    made.seed = seed;
    made.backward = chance(60);
    made.schedules = chance(50) ? random() | 1 : 0;
    made.isConstant = chance(15);
    made.type = oneOf({"bf16", "bf16", "f16", "f32"});
    drawSizes();
    // In the text a 0 stands for a run-time size.
    made.isConstant &= made.queries > 0 && made.keys > 0 &&
                       std::ranges::find(made.leading, 0) == made.leading.end();
    drawWidths();
    drawRules();
    if (made.leading.empty() && chance(50))
      drawSequences();
    if (chance(45))
      made.bias = drawOfScores(oneOf({"f32", "f32", "bf16", "f16"}));
    if (chance(30)) {
      made.mask = drawOfScores("i1");
      made.closesRows = chance(20);
    }
    if (chance(15))
      drawPair();
    if (chance(12))
      drawTogether();
  }
  Attention made;

 private:
  std::int64_t drawRows() {
    const std::int64_t which = below(100);
    return which < 3    ? 0
           : which < 35 ? 1 + below(20)
           : which < 75 ? 20 + below(80)
                        : 100 + below(101);
  }
  void drawSizes() {
    for (std::int64_t count = oneOf({0, 1, 1, 2}); count > 0; --count)
      made.leading.push_back(chance(2) ? 0 : 1 + below(3));
    made.keyHeads = 1 + below(3);
    made.sharing = oneOf({1, 1, 2, 3});
    made.queries = drawRows();
    made.keys = chance(25) ? made.queries : drawRows();
    const auto scores = [&] {
      std::int64_t count = made.keyHeads * made.sharing * made.queries * made.keys;
      for (std::int64_t size : made.leading)
        count *= size;
      return count;
    };
    while (scores() > mostPlaces) {
      for (std::int64_t& size : made.leading)
        size = std::max<std::int64_t>(size - 1, 1);
      made.sharing = std::max<std::int64_t>(made.sharing - 1, 1);
      made.keyHeads = std::max<std::int64_t>(made.keyHeads - 1, 1);
    }
  }
  std::int64_t drawWidth() {
    const std::int64_t which = below(100);
    if (which < 45)
      return oneOf<std::int64_t>({8, 16, 32, 64, 128});
    return which < 80 ? 1 + below(40)
                      : oneOf<std::int64_t>({24, 40, 48, 72, 80, 96, 100, 192, 256});
  }
  void drawWidths() {
    made.width = drawWidth();
    made.valueWidth = chance(60) ? made.width : drawWidth();
    made.scale = oneOf({1.0, 1.0, 0.5, -0.5}) / std::sqrt(static_cast<double>(made.width));
  }
  void drawRules() {
    made.causal = oneOf({"none", "none", "first", "last"});
    if (chance(25))
      made.windowLeft = below(60);
    if (chance(25))
      made.windowRight = below(60);
    if (chance(20))
      made.softcap = 1 + static_cast<double>(below(8)) / 2;
    if (chance(20))
      made.p = oneOf({0.1, 0.25, 0.9, 1.0});
  }

  Attention::OfScores drawOfScores(const char* type) {
    Attention::OfScores drawn{{}, type};
    for (std::size_t d = 0; d < made.leading.size() + 3; ++d)
      drawn.whole.push_back(chance(65));
    return drawn;
  }
  /// What kernels take that hold a bias, or whose blocks take heads that have none: constant sizes,
  /// and an element of the bias for each place.
  void drawPair() {
    made.isConstant = true;
    made.queryStarts.clear();
    made.keyStarts.clear();
    made.queries = std::max<std::int64_t>(made.queries, 1);
    made.keys = std::max<std::int64_t>((made.keys + 7) / 8 * 8, 8);
    made.leading = {1 + below(9)};
    made.type = oneOf({"bf16", "f16"});
    made.width = oneOf({16, 32, 64});
    made.valueWidth = chance(70) ? made.width : oneOf({16, 32, 64});
    made.scale = std::abs(made.scale);
    made.softcap = 0;
    made.bias = {};
    if (chance(60))
      made.bias = {{chance(20), chance(80), true, true}, made.type};
    made.schedules = random() | 1;
    if (!made.mask.whole.empty())
      made.mask = {{chance(80), false, chance(30), true}, "i1"};
  }
  /// All gradients in one kernel: what drawPair draws, of a bias that heads share and few keys that
  /// all queries see.
  void drawTogether() {
    drawPair();
    made.isTogether = true;
    made.backward = false;
    made.type = "bf16"; // with such a log-sum-exp probabilities are subnormal in fp16
    made.sharing = 1;
    made.leading.front() = 2 + below(5);
    made.queries = 1 + below(256);
    made.keys = 8 * (1 + below(32));
    made.keyHeads = 1 + below(2);
    made.width = oneOf({8, 16, 32});
    made.valueWidth = chance(70) ? made.width : oneOf({8, 16, 32});
    made.causal = "none";
    made.windowLeft = made.windowRight = -1;
    made.p = 0;
    made.bias = {{false, chance(80), true, true}, made.type};
    if (!made.mask.whole.empty())
      made.mask.whole[2] = false; // of keys alone
    made.schedules = chance(80) ? random() | 1 : 0;
  }
  /// Ascending, up to `rows`: some sequences are empty, and some rows in none.
  std::vector<std::int64_t> drawStarts(std::int64_t count, std::int64_t rows) {
    std::vector<std::int64_t> starts;
    for (std::int64_t i = 0; i <= count; ++i)
      starts.push_back(below(rows + 1));
    std::ranges::sort(starts);
    if (chance(60)) {
      starts.front() = 0;
      starts.back() = rows;
    }
    return starts;
  }
  void drawSequences() {
    const std::int64_t count = 1 + below(5);
    made.queryStarts = drawStarts(count, made.queries);
    made.keyStarts =
        chance(30) && made.keys == made.queries ? made.queryStarts : drawStarts(count, made.keys);
  }
};

std::string sizesOf(const Attention& a, const Attention::OfScores& ofScores) {
  std::vector<std::int64_t> sizes = a.leading;
  sizes.push_back(a.keyHeads * a.sharing);
  sizes.push_back(a.queries);
  sizes.push_back(a.keys);
  const std::size_t heads = a.leading.size();
  std::string text;
  for (std::size_t d = 0; d < ofScores.whole.size(); ++d) {
    const std::string size = !ofScores.whole[d]           ? "1"
                             : a.isConstant || d == heads ? std::to_string(sizes[d])
                                                          : "?";
    text += (d == 0 ? "" : "x") + size;
  }
  return text;
}

std::string attributesOf(const Attention& a) {
  std::string text = fmt::format("scale = {:e} : f32", a.scale);
  if (a.softcap > 0)
    text += fmt::format(", softcap = {:e} : f32", a.softcap);
  if (a.causal != "none")
    text += fmt::format(", causal = #kiln.causal<{}>", a.causal);
  for (auto [name, window] : {std::pair("left", a.windowLeft), std::pair("right", a.windowRight)})
    if (window >= 0)
      text += fmt::format(", window_{} = {}", name, window);
  return text;
}

} // namespace

Attention drawAttention(std::uint64_t seed) {
  return DrawingAttention(seed).made;
}

Case withoutSchedules(const Attention& a) {
  const auto number = [](std::int64_t size) { return static_cast<int>(size); };
  const auto open = [&](std::int64_t size) { return a.isConstant ? number(size) : 0; };
  AttentionText text;
  text.leading.clear();
  for (std::int64_t size : a.leading)
    text.leading.push_back(open(size));
  text.heads = number(a.keyHeads * a.sharing);
  text.keyHeads = number(a.keyHeads);
  text.queries = open(a.queries);
  text.keys = open(a.keys);
  text.width = number(a.width);
  text.valueWidth = number(a.valueWidth);
  text.type = a.type;
  text.bias = sizesOf(a, a.bias);
  text.biasType = a.bias.type;
  text.mask = sizesOf(a, a.mask);
  text.sequences = std::max(number(static_cast<std::int64_t>(a.queryStarts.size())) - 1, 0);
  text.p = a.p;
  text.attributes = attributesOf(a);

  Case made;
  made.name = fmt::format("random_attention_{}", a.seed);
  made.text = a.isTogether ? text.gradients() : text.text();
  if (!a.isConstant) {
    made.sizes = a.leading;
    made.sizes.insert(made.sizes.end(), {a.queries, a.keys});
  }
  made.backward = made.chained = a.backward;
  made.fill = a.closesRows ? Fill::closed : Fill::normal;
  if (!a.queryStarts.empty())
    made.numbers = {{"qs", {a.queryStarts.begin(), a.queryStarts.end()}},
                    {"ks", {a.keyStarts.begin(), a.keyStarts.end()}}};
  return made;
}

} // namespace kiln::test
