// Attention by threads that have a row each, forward, and gradients of queries and of keys and
// values: few rows and many, every width that a row's threads share in another way, and all that
// hides places.
#include "test/numerics/AttentionText.h"
#include "test/numerics/Builder.h"

#include <fmt/format.h>
#include <iterator>

namespace kiln::test {
namespace {

std::string rowsOf(int queries, int keys) {
  return fmt::format("#kiln.schedule<attention, queries = {}, keys = {}, stages = 1, blocks = 1, "
                     "launch = programmatic, products = threads>",
                     queries, keys);
}

struct ThreadsTable : Builder {
  /// As a training step runs it; `rows`: of a block.
  Case& add(const std::string& name, const AttentionText& text, Sizes sizes, int rows = 16) {
    Case& made =
        Builder::add("Attention", "attention_threads_" + name, text.text(), std::move(sizes), true);
    made.chained = true;
    made.schedule = rowsOf(rows, 16);
    made.scheduleOfBackward = "{kiln_attention_backward_1 = " + rowsOf(rows, 16) +
                              ", kiln_attention_backward_2 = " + rowsOf(16, rows) + "}";
    return made;
  }
  static AttentionText with(const std::string& more) {
    return {.attributes = "scale = 0.25 : f32, " + more};
  }

  void rows() {
    for (auto [s, t] : {std::pair(1, 4), {1, 1}, {3, 5}, {5, 3}, {4, 33}, {17, 2}, {20, 20}})
      add(fmt::format("{}_{}", s, t), {}, {3, s, t});
    add("template", {.heads = 4, .keyHeads = 4, .width = 16, .valueWidth = 16}, {70, 1, 4}, 128)
        .cancels = true;
    add("constant_sizes",
        {.leading = {5}, .heads = 3, .keyHeads = 3, .queries = 2, .keys = 6, .width = 8}, {});
    add("two_leading", {.leading = {2, 0}}, {3, 2, 5}, 32);
    add("nothing", {}, {0, 5, 7});
    add("no_queries", {}, {2, 0, 7});
    add("strided", {.queryLayout = "strides = [-1, -1, -1, 1], align = 2"}, {2, 5, 7}).strides = {
        {"q", {5 * 3 * 35, 35, 3 * 35, 1}}};
  }
  void widths() {
    for (const char* type : {"bf16", "f16", "f32"})
      for (int width : {8, 16, 24, 40, 96, 256})
        if (type[0] == 'b' || width == 8 || width == 24 || width == 96)
          add(fmt::format("{}_{}", type, width),
              {.width = width,
               .valueWidth = width,
               .type = type,
               .attributes = "scale = 0.125 : f32, causal = #kiln.causal<last>"},
              {2, 5, 9}, width == 8 ? 32 : 16);
    Builder::add("Attention", "attention_threads_two_vectors",
                 AttentionText{.width = 256, .valueWidth = 200, .type = "f32"}.text(), {2, 5, 9})
        .schedule = rowsOf(16, 16);
    add("values_wider", {.width = 16, .valueWidth = 72}, {2, 3, 9});
    add("values_narrower", {.width = 64, .valueWidth = 24, .type = "f16"}, {2, 3, 9}, 48);
    for (int width : {1, 3, 10, 33}) // rows that no wide access moves
      add(fmt::format("odd_width_{}", width), {.width = width, .valueWidth = 2 * width + 1},
          {1, 4, 6}, width < 10 ? 32 : 16);
    add("odd_width_f32", {.width = 7, .valueWidth = 5, .type = "f32"}, {1, 4, 6});
  }
  void rules() {
    for (const char* causal : {"first", "last"})
      for (auto [s, t] : {std::pair(9, 9), {4, 11}, {11, 4}})
        add(fmt::format("causal_{}_{}_{}", causal, s, t),
            with(fmt::format("causal = #kiln.causal<{}>", causal)), {2, s, t});
    add("window", with("window_left = 3, window_right = 1"), {2, 12, 14});
    add("softcap", with("softcap = 2.0 : f32"), {2, 5, 6});
    add("negative_scale", {.attributes = "scale = -0.5 : f32"}, {2, 5, 6});
    add("shared_heads", {.heads = 6, .keyHeads = 2}, {2, 3, 5}, 32);
    add("one_key_head", {.heads = 4, .keyHeads = 1, .width = 8, .valueWidth = 8}, {3, 1, 20}, 64);
    for (double p : {0.1, 0.003, 1.0})
      add(fmt::format("dropout_{}", int(p * 1000)), {.p = p}, {2, 5, 7});
    add("packed",
        {.leading = {},
         .sequences = 4,
         .attributes = with("causal = #kiln.causal<last>").attributes},
        {20, 24})
        .numbers = {{"qs", {3, 8, 8, 15, 17}}, {"ks", {0, 9, 12, 12, 22}}};
  }
  void biasesAndMasks() {
    for (auto [name, bias] :
         {std::pair("own", "?x2x?x?"), {"shared", "1x2x?x?"}, {"keys", "?x1x1x?"}})
      add(fmt::format("bias_{}", name), {.bias = bias}, {3, 4, 6})
          .scheduleOfBackward.insert(
              1, "kiln_attention_backward_3 = #kiln.schedule<attention, queries = 32, keys = 32, "
                 "stages = 1, blocks = 1, launch = programmatic>, ");
    for (auto [name, mask] :
         {std::pair("own", "?x2x?x?"), {"keys", "?x1x1x?"}, {"rows", "1x1x?x?"}}) {
      add(fmt::format("mask_{}", name), {.mask = mask}, {2, 4, 6});
      add(fmt::format("mask_closed_{}", name), {.mask = mask}, {2, 4, 6}).fill = Fill::closed;
    }
  }
  void hard() {
    for (Fill fill : {Fill::steep, Fill::nans, Fill::minusInf})
      for (const char* type : {"bf16", "f32"}) {
        Case& made = Builder::add(
            "Attention", fmt::format("hard_attention_threads_{}_{}", type, nameOf(fill)),
            AttentionText{.type = type, .attributes = "scale = 1.0 : f32"}.text(), {1, 6, 9});
        made.schedule = rowsOf(16, 16);
        made.fill = fill;
      }
  }
};

} // namespace

void addThreads(std::vector<Case>& cases) {
  ThreadsTable threads;
  threads.rows();
  threads.widths();
  threads.rules();
  threads.biasesAndMasks();
  threads.hard();
  std::ranges::move(threads.cases, std::back_inserter(cases));
}

} // namespace kiln::test
