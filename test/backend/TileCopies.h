// Kernels that only copy: a tile of each rank, element type and swizzle, partly beyond its tensor's
// ends, into the memory of some blocks of a cluster and back; and what must come of it.
#pragma once

#include "codegen/backend/LaunchPlan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

namespace kiln::test {

struct TileCopy {
  int rank;
  DType dtype;
  int swizzle;
  int blocks = 1;      // of the cluster, to which the first of them copies
  bool before = false; // stores begin before the tensor, too

  static constexpr int heights[] = {0, 6, 5, 3, 2}, boxHeights[] = {0, 4, 3, 2, 2};
  static constexpr int starts[] = {0, -1, 3, 2, 1};

  int element() const { return static_cast<int>(sizeInBytes(dtype)); }
  int size(int d) const { return d == 0 ? width() + 32 / element() : heights[d]; }
  int box(int d) const { return d == 0 ? width() : boxHeights[d]; }
  int start(int d) const { return d == 0 ? 48 / element() : starts[d]; } // of loads
  int storeStart(int d) const { return before ? start(d) : std::max(start(d), 0); }
  int width() const { return (swizzle == 0 ? 64 : swizzle) / element(); } // of a box
  int elements(bool ofBox) const {
    int count = 1;
    for (int d = 0; d < rank; ++d)
      count *= ofBox ? box(d) : size(d);
    return count;
  }
  int boxBytes() const { return elements(true) * element(); }

  std::string name() const {
    return fmt::format("{}d_{}_swizzle_{}_blocks_{}{}", rank, kiln::name(dtype), swizzle, blocks,
                       before ? "_before" : "");
  }
  std::string text() const {
    std::vector<int> at, to;
    for (int d = 0; d < rank; ++d) {
      at.push_back(start(d));
      to.push_back(storeStart(d));
    }
    const std::string coordinates = fmt::format("{}", fmt::join(at, ", "));
    const std::string load =
        blocks == 1
            ? fmt::format("load_tile(tile, x, full, {})", coordinates)
            : fmt::format("if (cluster_rank() == 0) load_tile_to_blocks(tile, x, full, {}, {})",
                          (1 << blocks) - 1, coordinates);
    return fmt::format(R"(#include "tensor_copy.cuh"
using namespace kiln;

KILN_KERNEL(32, 1) copy_tile(KILN_TENSOR_MAP x, KILN_TENSOR_MAP y, u32* images) {{
  constexpr int bytes = {0}, blocks = {1};
  char* tile = swizzled_memory();
  u64* full = reinterpret_cast<u64*>(tile + bytes);
  u64* done = full + 1;
  if (thread_index() == 0) {{
    mbarrier_initialize(full, 1);
    mbarrier_initialize(done, blocks);
    mbarrier_fence();
  }}
  cluster_arrive();
  cluster_wait();
  if (thread_index() == 0) {{
    mbarrier_arrive_expecting(full, bytes);
    {2};
  }}
  mbarrier_wait(full, 0);
  for (int i = thread_index(); i < bytes / 4; i += 32)
    store_global(images + block_index() * (bytes / 4) + i, load_shared<u32>(tile + 4 * i));
  if (thread_index() == 0 && block_index() == 0) {{
    store_tile(y, tile, {3});
    end_tile_stores();
    wait_for_tile_stores_but<0>();
  }}
  if (thread_index() < blocks)
    mbarrier_arrive_in_block(done, thread_index());
  mbarrier_wait_for_cluster(done, 0);
}}
)",
                       boxBytes(), blocks, load, fmt::join(to, ", "));
  }

  /// images[blocks * words], x and y as the rank says, packed.
  LaunchPlan plan() const {
    using Kind = KernelArgument::Kind;
    LaunchPlan plan;
    plan.function = "copy_tile";
    TensorInfo x{"x", dtype, {}, {}, 16};
    TensorMapInfo map{dtype, swizzle, 0, {}};
    for (int d = 0; d < rank; ++d) {
      x.shape.insert(x.shape.begin(), {size(d), -1});
      map.dimensions.push_back({{{{size(d), -1}}}, {}, d == 0 ? -1 : rank - 1 - d, box(d)});
    }
    TensorInfo y = x;
    y.name = "y";
    plan.inputs = {x};
    plan.outputs = {y, {"images", DType::i32, {{blocks * boxBytes() / 4, -1}}, {}, 16}};
    KernelLaunch kernel;
    kernel.name = "copy_tile";
    kernel.threads = 32;
    kernel.sharedBytes = boxBytes() + 16;
    kernel.cluster = blocks;
    kernel.grid = KernelLaunch::Grid::tiles;
    kernel.tiles = {{{{{{blocks, -1}}}, 1}}};
    kernel.tensorMaps = {map, map};
    kernel.arguments = {{Kind::tensorMap, "x", 0, {}, 0, 0, 0},
                        {Kind::tensorMap, "y", 0, {}, 0, 0, 1},
                        {Kind::buffer, "images", 0, {}, 0}};
    plan.kernels = {kernel};
    return plan;
  }

  std::vector<std::int64_t> sizes() const {
    std::vector<std::int64_t> sizes;
    for (int d = rank; d-- > 0;)
      sizes.push_back(size(d));
    return sizes;
  }
  /// Bytes of x, none of them zero.
  std::vector<unsigned char> input() const {
    std::vector<unsigned char> bytes(static_cast<std::size_t>(elements(false) * element()));
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<unsigned char>(i * 37 % 251 + 1);
    return bytes;
  }

  /// Of an element of the box, in bytes, in a tensor; -1: beyond its ends.
  int placeOf(int boxElement, int (TileCopy::*startOf)(int) const) const {
    int rest = boxElement, place = 0, stride = element();
    bool inside = true;
    for (int d = 0; d < rank; ++d) {
      const int at = (this->*startOf)(d) + rest % box(d);
      rest /= box(d);
      inside &= at >= 0 && at < size(d);
      place += at * stride;
      stride *= size(d);
    }
    return inside ? place : -1;
  }
  /// What shared memory holds then, and a y that was full of 0xff.
  void expect(const std::vector<unsigned char>& x, std::vector<unsigned char>& image,
              std::vector<unsigned char>& y) const {
    image.assign(static_cast<std::size_t>(boxBytes()), 0);
    y.assign(x.size(), 0xff);
    for (int i = 0; i < elements(true); ++i) {
      const int place = i * element(), units = swizzle / 16;
      const int swizzled = units > 0 ? place ^ (place / 128 % units) * 16 : place;
      if (const int from = placeOf(i, &TileCopy::start); from >= 0)
        std::memcpy(&image[swizzled], &x[from], static_cast<std::size_t>(element()));
      if (const int to = placeOf(i, &TileCopy::storeStart); to >= 0)
        std::memcpy(&y[to], &image[swizzled], static_cast<std::size_t>(element()));
    }
  }
};

inline const TileCopy tileCopies[] = {
    {2, DType::f32, 0},   {3, DType::f32, 32}, {4, DType::bf16, 64},    {5, DType::bf16, 128},
    {2, DType::i64, 128}, {5, DType::i1, 0},   {3, DType::f16, 128},    {4, DType::f64, 32},
    {2, DType::i32, 64},  {5, DType::f32, 64}, {2, DType::bf16, 64, 4}, {3, DType::f32, 128, 2},
    {4, DType::f16, 0, 8}};
/// No GPU takes it.
inline constexpr TileCopy storedBefore{3, DType::bf16, 128, 1, true};

} // namespace kiln::test
