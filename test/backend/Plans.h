// A launch plan with one of everything: what a row kernel with a column sum looks like.
#pragma once

#include "codegen/backend/LaunchPlan.h"

namespace kiln::test {

inline void* pointer(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);
}

/// y[s0, 128] = f(x[s0, 128], gamma[128]); dgamma by a partial sum per block and a fixed kernel.
inline LaunchPlan rowPlan() {
  using Kind = KernelArgument::Kind;
  Extent rows{0, 0};
  LaunchPlan plan;
  plan.function = "norm";
  plan.inputs = {{"x", DType::bf16, {rows, {128, -1}}, {-1, 1}, 16, true},
                 {"gamma", DType::f32, {{128, -1}}, {1}, 16}};
  plan.outputs = {{"y", DType::bf16, {rows, {128, -1}}, {}, 16},
                  {"dgamma", DType::f32, {{128, -1}}, {}, 4}};
  plan.workspaces = {{"flag", DType::i32, 1, 1, {}}, {"partial", DType::f32, 128, 0, {}}};
  KernelLaunch main;
  main.name = "norm_main";
  main.schedule = "#kiln.schedule<vector = 16>";
  main.threads = 256;
  main.sharedBytes = 2048;
  main.promisedBlocks = 2;
  main.programmatic = true;
  main.grid = KernelLaunch::Grid::resident;
  main.rowsPerBlock = 8;
  main.blocks = 2;
  main.rows.factors = {rows};
  main.arguments = {{Kind::buffer, "x", 0, {}, 0},
                    {Kind::stride, "x", 0, {}, 0},
                    {Kind::buffer, "gamma", 0, {}, 0},
                    {Kind::buffer, "y", 0, {}, 0},
                    {Kind::buffer, "partial", 0, {}, 0},
                    {Kind::rows, "", 0, {{rows}}, 0},
                    {Kind::size, "", 0, {{rows, {128, -1}}}, 0}};
  KernelLaunch reduce;
  reduce.name = "norm_reduce";
  reduce.threads = 128;
  reduce.grid = KernelLaunch::Grid::fixed;
  reduce.blocks = 1;
  reduce.arguments = {{Kind::buffer, "partial", 0, {}, 0},
                      {Kind::buffer, "dgamma", 0, {}, 0},
                      {Kind::buffer, "flag", 0, {}, 0},
                      {Kind::blocks, "", 0, {}, 0}};
  plan.kernels = {main, reduce};
  return plan;
}

} // namespace kiln::test
