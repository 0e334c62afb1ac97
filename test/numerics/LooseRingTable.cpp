// Rings whose tiles begin and end between the multiples of 16 bytes: rows of odd widths.
#include "test/numerics/Builder.h"

#include <iterator>

namespace kiln::test {
namespace {

struct LooseRingTable : Builder {
  /// Tiles that begin and end between the multiples of 16 bytes, and tensors that do: one row and
  /// several a block, rows of a part of a warp and of several, elements that are not only widened.
  void looseRings() {
    auto of = [&](int lanes, int vector, int rows, int threads, const char* columns = "") {
      return fmt::format(
          "#kiln.schedule<lanes = {}, vector = {}, rows = {}, threads = {}, blocks = "
          "1, grid = resident, keep = ring, launch = programmatic{}, stages = 2>",
          lanes, vector, rows, threads, columns);
    };
    const char* staged = ", columns = shared";
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
};

} // namespace

void addLooseRings(std::vector<Case>& cases) {
  LooseRingTable table;
  table.looseRings();
  std::ranges::move(table.cases, std::back_inserter(cases));
}

} // namespace kiln::test
