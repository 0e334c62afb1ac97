// AdamW over lists of tensors on a real GPU: the same bits as fp32 arithmetic allows, in place, the
// clip factor from the device, and a graph of it replayed.
#include "codegen/backend/Driver.h"
#include "codegen/backend/Target.h"
#include "kiln/lists.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace kiln;

namespace {

constexpr const char* kText = R"(
func.func @adamw(%p: tensor<?xf32> {kiln.list}, %g: tensor<?xf32> {kiln.list},
    %m: tensor<?xf32> {kiln.list}, %v: tensor<?xf32> {kiln.list},
    %lr: tensor<f32>, %step: tensor<f32>, %max_norm: tensor<f32>)
    -> (tensor<?xf32> {kiln.list}, tensor<?xf32> {kiln.list}, tensor<?xf32> {kiln.list},
        tensor<f32>) {
  %square = arith.mulf %g, %g : tensor<?xf32>
  %sum = kiln.reduce sum %square dims [0] : tensor<?xf32> -> tensor<f32>
  %norm = math.sqrt %sum : tensor<f32>
  %ratio = arith.divf %max_norm, %norm : tensor<f32>
  %one = arith.constant dense<1.0> : tensor<f32>
  %factor = arith.minimumf %ratio, %one : tensor<f32>
  %p1, %m1, %v1 = kiln.adamw %p, %g, %m, %v, %lr, %step, %factor {weight_decay = 0.1}
      : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<f32>, tensor<f32>,
         tensor<f32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  return %p1, %m1, %v1, %norm : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<f32>
})";

/// p, g, m and v of all tensors, one list after the other, each tensor with a gap behind it.
struct State {
  std::vector<std::int64_t> lengths;
  std::vector<std::int64_t> begins;
  std::int64_t stride = 0; // elements of a list with its gaps
  std::vector<float> values;

  explicit State(int tensors) {
    for (int i = 0; i < tensors; ++i) {
      lengths.push_back(i % 7 == 0 ? 0 : (std::int64_t(i) * 7919) % 40000);
      begins.push_back(stride + (i % 5 == 4)); // every fifth begins off a multiple of 16 bytes
      stride = (begins.back() + lengths.back() + 7) / 4 * 4;
    }
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < 4 * stride; ++i)
      values.push_back(i < 3 * stride ? normal(random) : 0.1f + std::abs(normal(random)));
  }
  TensorList list(void* memory, int index) const {
    TensorList tensors;
    for (std::size_t i = 0; i < lengths.size(); ++i)
      tensors.push_back(
          {static_cast<float*>(memory) + index * stride + begins[i], {lengths[i]}, {}});
    return tensors;
  }
};

/// Largest error of p, m and v after one step, relative to what is computed with.
double worstError(const State& before, const std::vector<float>& after, double norm, double lr) {
  double worst = 0, factor = std::min(1.0, 1.0 / norm);
  const std::int64_t n = before.stride;
  for (std::size_t t = 0; t < before.lengths.size(); ++t)
    for (std::int64_t i = before.begins[t]; i < before.begins[t] + before.lengths[t]; ++i) {
      double p = before.values[i], g = before.values[n + i] * factor;
      double m0 = before.values[2 * n + i], v0 = before.values[3 * n + i];
      double m = 0.9 * m0 + 0.1 * g, v = 0.999 * v0 + 0.001 * g * g;
      double rate = lr / (1 - std::pow(0.9, 3)) / (std::sqrt(v / (1 - std::pow(0.999, 3))) + 1e-8);
      double terms = std::abs(m0) + std::abs(g);
      auto check = [&](double result, double exact, double scale) {
        double error = std::abs(result - exact) / scale;
        worst = error > worst || std::isnan(error) ? error : worst;
      };
      check(after[i], p * (1 - lr * 0.1) - rate * m, std::abs(p) + rate * terms);
      check(after[2 * n + i], m, terms);
      check(after[3 * n + i], v, v);
    }
  return worst;
}

TEST(ListsOnDevice, ClippedAdamwInPlaceAndAsAGraph) {
  if (std::string why = whyNoGpu(); !why.empty())
    GTEST_SKIP() << why;
  const DeviceInfo& device = Driver::get().currentDevice();
  CompileOptions options;
  options.arch = targetOfCapability(device.major, device.minor).arch;
  Program program = Program::compile(Module::parse(kText), options);
  Executable executable(program);
  State state(200);
  auto bytes = std::as_bytes(std::span(state.values));
  DeviceBuffer memory(bytes.size()), numbers(16);
  const float given[4] = {1e-2f, 3.0f, 1.0f, NAN}; // lr, step, max_norm; norm
  auto* number = static_cast<float*>(numbers.data());
  auto list = [&](int index) { return state.list(memory.data(), index); };
  TensorLists lists(program.lists(), std::vector{list(0), list(1), list(2), list(3)},
                    std::vector{list(0), list(2), list(3)});
  DeviceBuffer table(lists.tableBytes());
  Stream stream;
  lists.upload(table.data(), stream.get());
  Buffer shared[] = {{number, {}, {}}, {number + 1, {}, {}}, {number + 2, {}, {}}};
  Buffer outputs[] = {{number + 3, {}, {}}};
  auto inputs = lists.inputs(table.data(), shared);
  DeviceBuffer workspace(executable.workspaceBytes(inputs));
  workspace.fill(0xff);
  auto launch = [&](CuStream to) { executable.launch(inputs, outputs, workspace.data(), to); };
  Graph graph = Graph::capture(stream, launch);

  double sum = 0;
  for (std::size_t t = 0; t < state.lengths.size(); ++t)
    for (std::int64_t i = 0; i < state.lengths[t]; ++i) {
      double g = state.values[state.stride + state.begins[t] + i];
      sum += g * g;
    }
  std::vector<float> first;
  for (bool replay : {false, true}) {
    memory.upload(bytes);
    numbers.upload(std::as_bytes(std::span(given)));
    if (replay)
      graph.launch(stream);
    else
      launch(stream.get());
    stream.synchronize();
    std::vector<float> after(state.values.size());
    memory.download(std::as_writable_bytes(std::span(after)));
    float results[4];
    numbers.download(std::as_writable_bytes(std::span(results)));
    EXPECT_NEAR(results[3], std::sqrt(sum), 1e-5 * std::sqrt(sum));
    EXPECT_LE(worstError(state, after, std::sqrt(sum), given[0]), 4e-6);
    EXPECT_TRUE(!replay || after == first) << "a replay gives the same bits";
    first = after;
  }
}

} // namespace
