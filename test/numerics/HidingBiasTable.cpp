// A bias that hides places and whole rows, by -inf and by numbers of which nothing of a product is
// left: every kind of kernel that adds one, forward and gradients.
#include "test/numerics/AttentionText.h"
#include "test/numerics/Builder.h"

#include <fmt/format.h>
#include <iterator>

namespace kiln::test {
namespace {

std::string scheduleOf(int queries, int keys, int stages, const char* more) {
  return fmt::format("#kiln.schedule<attention, queries = {}, keys = {}, stages = {}, blocks = 1, "
                     "launch = programmatic{}>",
                     queries, keys, stages, more);
}

struct HidingBiasTable : Builder {
  Case& add(const std::string& name, std::string text, Sizes sizes, const std::string& schedule,
            bool backward = false) {
    Case& made = Builder::add("Attention", "attention_hiding_" + name, std::move(text),
                              std::move(sizes), backward);
    made.schedule = schedule;
    made.fill = Fill::hiding;
    return made;
  }
  static AttentionText of(int width, const char* type, const std::string& bias,
                          const char* biasType) {
    return {.width = width,
            .valueWidth = width,
            .type = type,
            .bias = bias,
            .biasType = biasType,
            .attributes = "scale = 0.35355338 : f32"};
  }

  void read() {
    for (const char* type : {"bf16", "f16", "f32"}) {
      const AttentionText text = of(32, type, "1x2x?x?", type);
      add(fmt::format("warps_{}", type), text.text(), {3, 70, 90}, scheduleOf(64, 32, 2, ""));
      add(fmt::format("threads_{}", type), text.text(), {3, 6, 9},
          scheduleOf(16, 16, 1, ", products = threads"));
      add(fmt::format("chained_{}", type), text.text(), {3, 40, 50}, "", /*backward=*/true)
          .chained = true;
    }
    AttentionText bent = of(32, "bf16", "1x2x?x?", "f32");
    bent.attributes += ", softcap = 3.0 : f32";
    add("softcap", bent.text(), {3, 40, 50}, "", /*backward=*/true).chained = true;
    add("steep_scale",
        changed(of(16, "bf16", "?x1x?x?", "f32"),
                [](AttentionText& text) { text.attributes = "scale = 4.0 : f32"; })
            .text(),
        {2, 40, 50}, "");
    const std::string wide = of(64, "bf16", "1x2x?x?", "f32").text();
    add("warpgroups", wide, {2, 140, 150}, scheduleOf(64, 64, 2, ", products = warpgroups"));
    add("resident", wide, {2, 140, 150},
        scheduleOf(64, 64, 2, ", products = warpgroups, grid = resident"));
    add("heads",
        changed(of(32, "bf16", "1x2x?x40", "bf16"), [](AttentionText& text) { text.keys = 40; })
            .text(),
        {3, 50}, scheduleOf(64, 48, 1, ", products = heads"));
  }
  static AttentionText fixed(int width, const char* type, int queries, int keys) {
    AttentionText text = of(width, type, fmt::format("1x2x{}x{}", queries, keys), type);
    text.queries = queries;
    text.keys = keys;
    return text;
  }
  void held() {
    for (const char* type : {"bf16", "f16"})
      for (int width : {8, 32}) {
        const AttentionText text = fixed(width, type, 72, 136);
        const auto name = [&](const char* kind) {
          return fmt::format("{}_{}_{}", kind, type, width);
        };
        add(name("held"), text.text(), {5}, HeldTiles{64, 64, 2, 1, 2}.text());
        add(name("widened"), text.text(), {5}, HeldTiles{64, 64, 2, 1, 1, "widened"}.text());
        add(name("all_gradients"), text.gradients(), {5}, HeldTiles{32, 128, 3, 2, 1}.text());
        add(name("key_gradients"), text.gradients(/*ofQueries=*/false), {5},
            HeldTiles{32, 64, 2, 1, 1}.text());
        add(name("chained"), text.text(), {4}, "", /*backward=*/true).chained = true;
      }
    for (int side : {1, 2}) {
      const AttentionText text = fixed(8, "bf16", 100, 136);
      add(fmt::format("by_warps_{}", side), text.text(), {5},
          HeldTiles{64, 32, 2, 2, side, "held", "warps"}.text());
    }
    add("all_gradients_by_warps", fixed(8, "bf16", 100, 136).gradients(), {5},
        HeldTiles{128, 128, 2, 2, 1, "held", "warps"}.text());
  }
};

} // namespace

void addHidingBiases(std::vector<Case>& cases) {
  HidingBiasTable hiding;
  hiding.read();
  hiding.held();
  std::ranges::move(hiding.cases, std::back_inserter(cases));
}

} // namespace kiln::test
