// Rings whose tiles begin and end between the multiples of 16 bytes: rows of odd widths.
#include "test/numerics/Builder.h"

#include <iterator>

namespace kiln::test {
namespace {

std::string of(int lanes, int vector, int rows, int threads, const char* columns = "") {
  return fmt::format("#kiln.schedule<lanes = {}, vector = {}, rows = {}, threads = {}, blocks = "
                     "1, grid = resident, keep = ring, launch = programmatic{}, stages = 2>",
                     lanes, vector, rows, threads, columns);
}
const char* const staged = ", columns = shared";

struct LooseRingTable : Builder {
  /// Tiles that begin and end between the multiples of 16 bytes, and tensors that do: one row and
  /// several a block, rows of a part of a warp and of several, elements that are not only widened.
  void looseRings() {
    for (const char* type : {"f32", "bf16", "f16"})
      for (std::int64_t rows : {1, 38, 701}) {
        std::string suffix = fmt::format("_{}_rows{}", type, rows);
        for (int n : {type == std::string("f32") ? 1 : 9, 3, 5, 7, 17})
          add("LayerNorm", fmt::format("loose_norm_{}{}", n, suffix), layerNormText(n, type),
              {rows}, n > 3)
              .schedule = of(4, 1, n == 5 ? 2 : 1, 32);
        add("RmsNorm", "loose_pairs" + suffix, rmsNormText(62, type), {rows}, true).schedule =
            of(32, 2, 1, 32);
        add("LayerNorm", "loose_rows" + suffix, layerNormText(333, type), {rows}, true).schedule =
            of(32, 1, 3, 96, staged);
        add("Softmax", "loose_softmax" + suffix, softmaxText(77, type, true, true), {rows})
            .schedule = of(32, 1, 1, 96);
      }
    for (const char* type : {"f32", "bf16"})
      for (int n : {777, 1023, 4095})
        for (bool backward : {false, true}) {
          std::string suffix = fmt::format("_{}_{}", n, type);
          add("LayerNorm", "loose_wide" + suffix, layerNormText(n, type), {141}, backward)
              .schedule = of(256, 1, 1, 256, staged);
          add("RmsNorm", "loose_wide_rms" + suffix, rmsNormText(n, type), {139}, backward)
              .schedule = of(128, 1, 2, 128);
        }
  }

  /// Their vectors overlap the ends of rows: weights in registers and in shared memory, one row and
  /// several a block, fewer than blocks, rows of a part of a warp, of one and of several.
  void overlapping() {
    for (const char* columns : {"", staged})
      for (std::int64_t rows : {1, 38, 701}) {
        std::string suffix = fmt::format("_{}_rows{}", *columns ? "staged" : "held", rows);
        add("LayerNorm", "overlap_part" + suffix, layerNormText(77, "bf16", "bf16"), {rows})
            .schedule = of(4, 8, 1, 64, columns);
        add("LayerNorm", "overlap_short" + suffix, layerNormText(9, "f16"), {rows}, true).schedule =
            of(32, 8, 1, 64, columns);
        add("LayerNorm", "overlap_warp" + suffix, layerNormText(333, "bf16"), {rows}, true)
            .schedule = of(32, 4, 1, 96, columns);
        add("LayerNorm", "overlap_f32" + suffix, layerNormText(777, "f32"), {rows}, true).schedule =
            of(64, 4, 1, 256, columns);
        add("LayerNorm", "overlap_pairs" + suffix, layerNormText(333, "f16", "f16"), {rows})
            .schedule = of(16, 2, 1, 32, columns);
        add("RmsNorm", "overlap_rms" + suffix, rmsNormText(1001, "bf16"), {rows}, true).schedule =
            of(128, 8, 1, 128, columns);
        add("RmsNorm", "overlap_eight" + suffix, rmsNormText(75, "bf16"), {rows}, true).schedule =
            of(32, 4, 1, 256, columns); // tiles of whole 16 bytes
      }
    for (const char* columns : {"", staged})
      for (bool backward : {false, true}) { // sums of many columns
        std::string suffix = *columns ? "_staged" : "_held";
        add("LayerNorm", "overlap_wide" + suffix, layerNormText(4095, "bf16"), {141}, backward)
            .schedule = of(288, 8, 1, 288, columns);
        add("LayerNorm", "overlap_wide_weights" + suffix, layerNormText(4095, "bf16", "bf16"),
            {141}, backward)
            .schedule = of(256, 2, 1, 256, columns);
      }
  }
};

} // namespace

void addLooseRings(std::vector<Case>& cases) {
  LooseRingTable table;
  table.looseRings();
  table.overlapping();
  std::ranges::move(table.cases, std::back_inserter(cases));
}

} // namespace kiln::test
