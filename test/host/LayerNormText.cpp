// The texts are written with words in capitals for the numbers, which keeps them readable.
#include "test/host/LayerNormText.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::test {

namespace {

constexpr const char* forwardText = R"(#include "row.cuh"
using namespace kiln;

KILN_KERNEL(THREADS, 1)
forward(const TYPE* x, const float* gamma, const float* beta, TYPE* y, float* mean, float* rstd,
        i64 rows) {
  using Tile = RowTile<COLUMNS, LANES, VECTOR, ROWS, THREADS>;
  wait_for_predecessor();
  release_successor();
  Tile at(rows, block_index());
  KEEP;
  load<VECTOR>(at, x_tile, x, RowMap<1>{{0}, {COLUMNS}});
  float sum[ROWS] = {};
#pragma unroll
  for (int c = 0; c < Tile::chunks; ++c) {
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      const auto x_c = x_tile.get(r, c);
#pragma unroll
      for (int i = 0; i < Tile::vector; ++i) {
        sum[r] += float(x_c[i]);
      }
    }
  }
  row_reduce<Sum>(at, shared_memory() + FIRST, sum);
  float mean_0[ROWS];
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    mean_0[r] = sum[r] * (1.0f / COLUMNS);
  }
  float sum_1[ROWS] = {};
#pragma unroll
  for (int c = 0; c < Tile::chunks; ++c) {
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      const auto x_c = x_tile.get(r, c);
#pragma unroll
      for (int i = 0; i < Tile::vector; ++i) {
        const float d = at.has(c) ? float(x_c[i]) - mean_0[r] : 0.0f;
        sum_1[r] += d * d;
      }
    }
  }
  row_reduce<Sum>(at, shared_memory() + SECOND, sum_1);
  float rstd_0[ROWS];
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    rstd_0[r] = inverse_sqrt(sum_1[r] * (1.0f / COLUMNS) + 1.0e-5f);
  }
  stage_rows(at, shared_memory() + STORE, mean_0, rstd_0);
  block_barrier();
  store_rows(at, shared_memory() + STORE, RowStore{mean, RowMap<1>{{0}, {1}}, mean_0},
             RowStore{rstd, RowMap<1>{{0}, {1}}, rstd_0});
#pragma unroll
  for (int c = 0; c < Tile::chunks; ++c) {
    if (!at.has(c))
      continue;
    const auto gamma_c = load_columns<VECTOR>(at, c, gamma);
    const auto beta_c = load_columns<VECTOR>(at, c, beta);
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      const auto x_c = x_tile.get(r, c);
      Vec<float, Tile::vector> y_c;
#pragma unroll
      for (int i = 0; i < Tile::vector; ++i) {
        y_c[i] = (float(x_c[i]) - mean_0[r]) * rstd_0[r] * gamma_c[i] + beta_c[i];
      }
      store<VECTOR>(at, r, c, y, RowMap<1>{{0}, {COLUMNS}}, y_c);
    }
  }
}
)";

constexpr const char* backwardText = R"(#include "row.cuh"
using namespace kiln;

KILN_KERNEL(THREADS, 1)
backward(const TYPE* dy, const TYPE* x, const float* gamma, const float* mean, const float* rstd,
         TYPE* dx, float* partials, i64 rows) {
  using Tile = RowTile<COLUMNS, LANES, VECTOR, ROWS, THREADS>;
  wait_for_predecessor();
  release_successor();
  float dgamma_sum[Tile::chunks][Tile::vector] = {};
  float dbeta_sum[Tile::chunks][Tile::vector] = {};
  for (Tile at(rows, block_index()); at.any(); at.advance(block_count())) {
    Registers<Tile, TYPE> dy_tile;
    load<VECTOR>(at, dy_tile, dy, RowMap<1>{{0}, {COLUMNS}});
    KEEP;
    load<VECTOR>(at, x_tile, x, RowMap<1>{{0}, {COLUMNS}});
    float mean_0[ROWS], rstd_0[ROWS];
    load_rows(at, mean_0, mean, RowMap<1>{{0}, {1}});
    load_rows(at, rstd_0, rstd, RowMap<1>{{0}, {1}});
    float sum[ROWS] = {}, sum_1[ROWS] = {};
#pragma unroll
    for (int c = 0; c < Tile::chunks; ++c) {
      if (!at.has(c))
        continue;
      const auto gamma_c = load_columns<VECTOR>(at, c, gamma);
#pragma unroll
      for (int r = 0; r < Tile::rows; ++r) {
        if (!at.valid(r))
          continue;
        const auto dy_c = dy_tile.get(r, c);
        const auto x_c = x_tile.get(r, c);
#pragma unroll
        for (int i = 0; i < Tile::vector; ++i) {
          const float normal = (float(x_c[i]) - mean_0[r]) * rstd_0[r];
          const float weighted = float(dy_c[i]) * gamma_c[i];
          sum[r] += weighted;
          sum_1[r] += weighted * normal;
          dgamma_sum[c][i] += float(dy_c[i]) * normal;
          dbeta_sum[c][i] += float(dy_c[i]);
        }
      }
    }
    BARRIER;
    row_reduce<Sum>(at, shared_memory() + FIRST, sum, sum_1);
#pragma unroll
    for (int c = 0; c < Tile::chunks; ++c) {
      if (!at.has(c))
        continue;
      const auto gamma_c = load_columns<VECTOR>(at, c, gamma);
#pragma unroll
      for (int r = 0; r < Tile::rows; ++r) {
        const auto dy_c = dy_tile.get(r, c);
        const auto x_c = x_tile.get(r, c);
        Vec<float, Tile::vector> dx_c;
#pragma unroll
        for (int i = 0; i < Tile::vector; ++i) {
          const float normal = (float(x_c[i]) - mean_0[r]) * rstd_0[r];
          dx_c[i] = rstd_0[r] * (float(dy_c[i]) * gamma_c[i] - sum[r] * (1.0f / COLUMNS) -
                                 normal * sum_1[r] * (1.0f / COLUMNS));
        }
        store<VECTOR>(at, r, c, dx, RowMap<1>{{0}, {COLUMNS}}, dx_c);
      }
    }
  }
  const Tile at(rows, block_index());
  float* line = partials + block_index() * STRIDE;
  store_partial_columns(at, shared_memory(), line, dgamma_sum);
  store_partial_columns(at, shared_memory(), line + COLUMNS, dbeta_sum);
}

KILN_KERNEL(256, 1)
finish(const float* partials, i64 lines, float* dgamma, float* dbeta) {
  wait_for_predecessor();
  release_successor();
  const float total = sum_partials<256>(partials, lines, 2 * COLUMNS, STRIDE, shared_memory());
  store_total(total, 0, COLUMNS, dgamma);
  store_total(total, COLUMNS, COLUMNS, dbeta);
}
)";

void replaceAll(std::string& text, std::string_view word, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += by.size())
    text.replace(at, word.size(), by);
}

struct Layout {
  explicit Layout(const LayerNormSchedule& s)
      : warpsPerGroup(s.lanes < 32 ? 1 : s.lanes / 32),
        reduceBytes(warpsPerGroup > 1 ? s.rows * (s.threads / 32) * 4 : 0),
        stride((2 * s.columns + 3) / 4 * 4), rowsPerBlock(s.threads / s.lanes * s.rows),
        chunks((s.columns + s.lanes * s.vector - 1) / (s.lanes * s.vector)) {
    teams = s.threads / (s.lanes < 32 ? 32 : s.lanes);
    partialBytes = teams > 1 ? teams * s.columns * 4 : 0;
    tileBytes = s.sharedTile ? s.rows * chunks * s.threads * s.vector *
                                   static_cast<int>(sizeInBytes(s.dtype))
                             : 0;
  }
  int warpsPerGroup, reduceBytes, stride, rowsPerBlock, chunks;
  int teams = 0, partialBytes = 0, tileBytes = 0;
};

std::string fill(std::string text, const LayerNormSchedule& s, int first, int second) {
  Layout layout(s);
  std::string type = s.dtype == DType::f32 ? "float" : std::string(name(s.dtype));
  std::string keep = s.sharedTile ? fmt::format("Shared<Tile, {}> x_tile(shared_memory())", type)
                                  : fmt::format("Registers<Tile, {}> x_tile", type);
  replaceAll(text, "KEEP", keep);
  replaceAll(text, "BARRIER", s.loopBarrier ? "block_barrier()" : "");
  replaceAll(text, "THREADS", std::to_string(s.threads));
  replaceAll(text, "COLUMNS", std::to_string(s.columns));
  replaceAll(text, "LANES", std::to_string(s.lanes));
  replaceAll(text, "VECTOR", std::to_string(s.vector));
  replaceAll(text, "ROWS", std::to_string(s.rows));
  replaceAll(text, "TYPE", type);
  replaceAll(text, "FIRST", std::to_string(first));
  replaceAll(text, "SECOND", std::to_string(second));
  replaceAll(text, "STORE", std::to_string(second + layout.reduceBytes));
  replaceAll(text, "STRIDE", std::to_string(layout.stride));
  return text;
}

TensorInfo tensor(const char* name, DType dtype, std::vector<Extent> shape) {
  TensorInfo info;
  info.name = name;
  info.dtype = dtype;
  info.shape = shape;
  info.strides.assign(shape.size(), 1);
  if (shape.size() == 2)
    info.strides[0] = shape[1].size;
  return info;
}

KernelArgument argument(KernelArgument::Kind kind, const char* name = "") {
  KernelArgument result;
  result.kind = kind;
  result.name = name;
  return result;
}
KernelArgument buffer(const char* name) {
  return argument(KernelArgument::Kind::buffer, name);
}

const Extent rowCount{0, 0};

KernelArgument rowsArgument() {
  KernelArgument result = argument(KernelArgument::Kind::rows);
  result.product = {{rowCount}};
  return result;
}

} // namespace

KernelText layerNormForward(const LayerNormSchedule& s) {
  Layout layout(s);
  int first = layout.tileBytes, second = first + (s.sameScratch ? 0 : layout.reduceBytes);
  Extent columns{s.columns};
  LaunchPlan plan;
  plan.function = "layer_norm";
  plan.inputs = {tensor("x", s.dtype, {rowCount, columns}), tensor("gamma", DType::f32, {columns}),
                 tensor("beta", DType::f32, {columns})};
  plan.outputs = {tensor("y", s.dtype, {rowCount, columns}), tensor("mean", DType::f32, {rowCount}),
                  tensor("rstd", DType::f32, {rowCount})};
  KernelLaunch kernel;
  kernel.name = "forward";
  kernel.threads = s.threads;
  kernel.sharedBytes = second + layout.reduceBytes + 2 * 8 * layout.rowsPerBlock;
  kernel.promisedBlocks = 1;
  kernel.rowsPerBlock = layout.rowsPerBlock;
  kernel.rows = {{rowCount}};
  for (const char* name : {"x", "gamma", "beta", "y", "mean", "rstd"})
    kernel.arguments.push_back(buffer(name));
  kernel.arguments.push_back(rowsArgument());
  plan.kernels = {kernel};
  return {fill(forwardText, s, first, second), plan};
}

KernelText layerNormBackward(const LayerNormSchedule& s) {
  Layout layout(s);
  Extent columns{s.columns};
  LaunchPlan plan;
  plan.function = "layer_norm_backward";
  plan.inputs = {tensor("dy", s.dtype, {rowCount, columns}),
                 tensor("x", s.dtype, {rowCount, columns}), tensor("gamma", DType::f32, {columns}),
                 tensor("mean", DType::f32, {rowCount}), tensor("rstd", DType::f32, {rowCount})};
  plan.outputs = {tensor("dx", s.dtype, {rowCount, columns}),
                  tensor("dgamma", DType::f32, {columns}), tensor("dbeta", DType::f32, {columns})};
  plan.workspaces = {{"partials", DType::f32, layout.stride, 0, {}}};
  KernelLaunch kernel;
  kernel.name = "backward";
  kernel.threads = s.threads;
  kernel.sharedBytes = std::max(layout.tileBytes + 2 * layout.reduceBytes, layout.partialBytes);
  kernel.promisedBlocks = 1;
  kernel.grid = KernelLaunch::Grid::resident;
  kernel.blocks = 1;
  kernel.rowsPerBlock = layout.rowsPerBlock;
  kernel.rows = {{rowCount}};
  for (const char* name : {"dy", "x", "gamma", "mean", "rstd", "dx", "partials"})
    kernel.arguments.push_back(buffer(name));
  kernel.arguments.push_back(rowsArgument());
  KernelLaunch finish;
  finish.name = "finish";
  finish.threads = 256;
  finish.sharedBytes = 256 * 16;
  finish.promisedBlocks = 1;
  finish.grid = KernelLaunch::Grid::fixed;
  finish.blocks = (2 * s.columns + 31) / 32;
  finish.arguments = {buffer("partials"), argument(KernelArgument::Kind::blocks), // of kernel 0
                      buffer("dgamma"), buffer("dbeta")};
  plan.kernels = {kernel, finish};
  return {fill(backwardText, s, layout.tileBytes, 0), plan};
}

} // namespace kiln::test
