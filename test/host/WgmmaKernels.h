// Kernels with products of warpgroups, and their data: operands that a block stores itself, and
// tiles that tensor maps bring.
#pragma once

#include "test/host/Harness.h"
#include "test/host/Numbers.h"

#include <algorithm>
#include <fmt/format.h>

namespace kiln::test {

// Tiles lie in shared memory as tensor maps bring them: K-major (rows, depth) or transposed (depth,
// rows), in panels of a span each. a is (64, depth) row after row, b (n, depth) column after
// column, d (64, n).
inline constexpr const char* productText = R"(#include "tensor_copy.cuh"
#include "wgmma.cuh"
using namespace kiln;

constexpr int depth = 64;

template <int rows, int span, bool transposed> struct Tile {
  static constexpr int lines = transposed ? depth : rows, width = transposed ? rows : depth;
  static constexpr int panel = lines * span;
  static constexpr int bytes = (width * 2 + span - 1) / span * panel;

  KILN_DEVICE static int place(int line, int column) {
    const int offset = column / (span / 2) * panel + line * span + column % (span / 2) * 2;
    return offset ^ (offset >> 3 & (span / 16 - 1) << 4);
  }
  KILN_DEVICE static void fill(char* tile, const u16* from) {
    for (int i = thread_index(); i < rows * depth; i += 128) {
      const int row = i / depth, k = i % depth;
      store_shared(tile + (transposed ? place(k, row) : place(row, k)), load_global<u16>(from + i));
    }
  }
  KILN_DEVICE static MatrixDescriptor step(const char* tile, int k) {
    if constexpr (transposed)
      return mn_major<span>(tile, panel) + k * span;
    else
      return k_major<span>(tile) + (k * 2 / span * panel + k * 2 % span);
  }
};

struct Mine { // elements of this thread, as mma.cuh and wgmma.cuh say
  int row = thread_index() / 32 * 16 + thread_index() % 32 / 4, column = thread_index() % 4 * 2;

  template <int n> KILN_DEVICE float* sum(float* d, int i) const {
    return d + (row + i / 2 % 2 * 8) * n + i / 4 * 8 + column + i % 2;
  }
  KILN_DEVICE const u16* pair(const u16* a, int k, int i) const {
    return a + (row + i % 2 * 8) * depth + k + column + i / 2 * 8;
  }
};

template <class T, int n, int span_a, bool transposed_a, int span_b, bool transposed_b,
          bool from_registers, bool keeps>
KILN_DEVICE void product(const u16* a, const u16* b, float* d) {
  using A = Tile<64, span_a, transposed_a>;
  using B = Tile<n, span_b, transposed_b>;
  char* b_tile = swizzled_memory() + (A::bytes + 1023) / 1024 * 1024;
  A::fill(swizzled_memory(), a);
  B::fill(b_tile, b);
  bulk_copy_fence();
  block_barrier();
  const Mine mine;
  float sums[n / 2];
  u32 left[depth / 16][4];
#pragma unroll
  for (int i = 0; i < n / 2; ++i)
    sums[i] = load_global<float>(mine.sum<n>(d, i));
#pragma unroll
  for (int i = 0; i < depth / 4; ++i)
    left[i / 4][i % 4] = load_global<u32>(mine.pair(a, i / 4 * 16, i % 4));
  pin(sums);
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < depth; k += 16)
    if constexpr (from_registers)
      wgmma<T, n, transposed_b>(sums, left[k / 16], B::step(b_tile, k), keeps || k > 0);
    else
      wgmma<T, n, transposed_a, transposed_b>(sums, A::step(swizzled_memory(), k), B::step(b_tile, k),
                                              keeps || k > 0);
  wgmma_commit();
  wgmma_wait<0>();
  pin(sums);
#pragma unroll
  for (int i = 0; i < n / 2; ++i)
    store_global(mine.sum<n>(d, i), sums[i]);
}
)";

inline constexpr int productDepth = 64;

struct ProductCase {
  const char* type;
  int n;
  int spanA;
  bool transposedA;
  int spanB;
  bool transposedB;
  bool fromRegisters = false;
  bool accumulates = false;

  std::string name() const {
    const std::string left =
        fromRegisters ? "registers" : fmt::format("{}{}", spanA, transposedA ? "mn" : "k");
    return fmt::format("{}_{}_{}_{}{}{}", type, n, left, spanB, transposedB ? "mn" : "k",
                       accumulates ? "_accumulates" : "");
  }
  std::string kernel() const {
    return fmt::format("KILN_KERNEL(128, 1) {}(const u16* a, const u16* b, float* d) "
                       "{{ product<{}, {}, {}, {}, {}, {}, {}, {}>(a, b, d); }}\n",
                       name(), type, n, spanA, transposedA, spanB, transposedB, fromRegisters,
                       accumulates);
  }
};

/// Every swizzle and order of each operand, every N, both types.
inline std::vector<ProductCase> productCases() {
  std::vector<ProductCase> cases;
  for (int n : {8, 32, 64, 256})
    for (int span : {32, 64, 128})
      for (bool transposed : {false, true}) {
        const int other = span == 128 ? 32 : span * 2;
        cases.push_back({"bf16", n, other, !transposed, span, transposed});
        cases.push_back({"f16", n, span, transposed, span, transposed, false, true});
        cases.push_back({"f16", n, 128, false, span, transposed, true, n == 64});
      }
  for (int n : {16, 24, 40, 48, 80, 96, 128, 192})
    for (bool fromRegisters : {false, true})
      cases.push_back({"bf16", n, 64, true, 64, n % 16 == 0, fromRegisters});
  return cases;
}

inline std::string textOf(const std::vector<ProductCase>& cases) {
  std::string text = productText;
  for (const ProductCase& one : cases)
    text += one.kernel();
  return text;
}

struct ProductData {
  int n;
  std::vector<std::uint16_t> a, b;
  std::vector<float> d, expected;

  ProductData(int n, bool isBf16, bool accumulates)
      : n(n), d(static_cast<std::size_t>(64 * n)), expected(d.size(), 0.0f) {
    Eighths next; // sums of products are exact
    std::vector<float> left(64 * productDepth), right(static_cast<std::size_t>(n * productDepth));
    for (auto* matrix : {&left, &right, &d})
      std::ranges::generate(*matrix, std::ref(next));
    for (float value : left)
      a.push_back(bitsOf(value, isBf16));
    for (float value : right)
      b.push_back(bitsOf(value, isBf16));
    if (accumulates)
      expected = d;
    for (int i = 0; i < 64 * n; ++i)
      for (int k = 0; k < productDepth; ++k)
        expected[i] += left[i / n * productDepth + k] * right[i % n * productDepth + k];
  }
  void run(const std::string& text, const std::string& kernel, int threads = 128) {
    runKernel(*HostLibrary::compile(text),
              {.name = kernel,
               .blocks = 1,
               .threads = threads,
               .sharedBytes = 64 * 1024,
               .arguments = {pointer(a), pointer(b), pointer(d)},
               .regions = {input("a", a), input("b", b), output("d", d)}});
  }
};

//===- Tiles that tensor maps bring ---------------------------------------------------------===//

inline constexpr const char* loadedText = R"(#include "tensor_copy.cuh"
#include "wgmma.cuh"
using namespace kiln;

// d (64, 64) = a (64, 64) b for a and b row after row: a is K-major, b transposed.
KILN_KERNEL(128, 1) multiply_tiles(KILN_TENSOR_MAP a, KILN_TENSOR_MAP b, float* d) {
  char* memory = swizzled_memory();
  u64* full = reinterpret_cast<u64*>(memory + 2 * 8192);
  if (thread_index() == 0) {
    mbarrier_initialize(full, 1);
    mbarrier_fence();
  }
  block_barrier();
  if (thread_index() == 0) {
    mbarrier_arrive_expecting(full, 2 * 8192);
    load_tile(memory, a, full, 0, 0);
    load_tile(memory + 8192, b, full, 0, 0);
    load_tile(memory + 8192 + 4096, b, full, 32, 0);
  }
  mbarrier_wait(full, 0);  // loaded
  float sums[32];
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < 64; k += 16)
    wgmma<bf16, 64, false, true>(sums, k_major<128>(memory) + k * 2,
                                 mn_major<64>(memory + 8192, 4096) + k * 64, k > 0);
  wgmma_commit();
  wgmma_wait<0>();  // multiplied
  if (thread_index() == 0) {
    mbarrier_arrive_expecting(full, 8192);
    load_tile(memory, a, full, 0, 0);
  }
  pin(sums);
  mbarrier_wait(full, 1);
  const int row = thread_index() / 32 * 16 + thread_index() % 32 / 4, column = thread_index() % 4 * 2;
#pragma unroll
  for (int i = 0; i < 32; ++i)
    store_global(d + (row + i / 2 % 2 * 8) * 64 + i / 4 * 8 + column + i % 2, sums[i]);
}
)";

inline LaunchPlan loadedPlan() {
  using Kind = KernelArgument::Kind;
  const Extent side{64, -1};
  LaunchPlan plan;
  plan.function = "multiply_tiles";
  plan.inputs = {{"a", DType::bf16, {side, side}, {}, 16},
                 {"b", DType::bf16, {side, side}, {}, 16}};
  plan.outputs = {{"d", DType::f32, {side, side}, {}, 16}};
  KernelLaunch kernel;
  kernel.name = "multiply_tiles";
  kernel.threads = 128;
  kernel.sharedBytes = 2 * 8192 + 8;
  kernel.grid = KernelLaunch::Grid::tiles;
  kernel.tiles = {{{{{side}}, 64}}};
  kernel.tensorMaps = {
      {DType::bf16, 128, 0, {{{{side}}, {}, -1, 64}, {{{side}}, {{side}}, -1, 64}}},
      {DType::bf16, 64, 0, {{{{side}}, {}, -1, 32}, {{{side}}, {{side}}, -1, 64}}}};
  kernel.arguments = {{Kind::tensorMap, "a", 0, {}, 0, 0, 0},
                      {Kind::tensorMap, "b", 0, {}, 0, 0, 1},
                      {Kind::buffer, "d", 0, {}, 0}};
  plan.kernels = {kernel};
  return plan;
}

inline void runLoaded(ProductData& data, const std::string& text) {
  std::vector<std::uint16_t> b(data.b.size()); // by rows
  for (int i = 0; i < 64 * 64; ++i)
    b[i] = data.b[i % 64 * 64 + i / 64];
  const Buffer inputs[] = {{data.a.data(), {64, 64}, {}}, {b.data(), {64, 64}, {}}};
  const Buffer output{data.d.data(), {64, 64}, {}};
  HostProgram(loadedPlan(), text).run(inputs, std::span(&output, 1));
}

inline std::string withStep(std::string text, const std::string& step, const std::string& instead) {
  const std::size_t at = text.find(step);
  EXPECT_NE(at, std::string::npos) << step;
  return text.replace(at, step.size(), instead);
}

} // namespace kiln::test
