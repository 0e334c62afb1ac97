// What the host target says where the kernel whose blocks take turns (device/attention_turns.cuh)
// leaves out a wait or a barrier: a thread that reads or writes too early is found whatever order
// the threads happened to run in.
#include "codegen/backend/LaunchPlan.h"
#include "test/host/Harness.h"
#include "test/numerics/AttentionText.h"

#include "kiln/kiln.h"

#include <gmock/gmock.h>

#include <fmt/format.h>

#include <fstream>
#include <sstream>

namespace kiln::test {
namespace {

constexpr const char* header = "attention_turns.cuh";

std::string headerText() {
  std::stringstream text;
  text << std::ifstream(std::string(KILN_DEVICE_FOLDER) + "/" + header).rdbuf();
  return text.str();
}

/// The kernels' text with the header in it, and their launch plan.
std::string kernels() {
  const AttentionText text = {.leading = {1},
                              .heads = 1,
                              .keyHeads = 1,
                              .queries = 1024, // long enough to be one kernel
                              .keys = 150,
                              .width = 64,
                              .valueWidth = 64};
  CompileOptions options;
  options.until = Stage::cuda;
  options.schedule = "#kiln.schedule<attention, queries = 64, keys = 128, stages = 2, blocks = 1, "
                     "launch = programmatic, groups = 1, products = warpgroups>";
  const Program program = Program::compile(Module::parse(text.gradients()), options);
  return replaced(program.text(Stage::cuda), fmt::format("#include \"{}\"", header),
                  replaced(headerText(), "#pragma once", ""));
}

void run(const std::string& text) {
  const LaunchPlan plan = launchPlanOfCuda(text);
  std::vector<std::vector<std::byte>> memory;
  const auto buffers = [&](const std::vector<TensorInfo>& tensors) {
    std::vector<Buffer> made;
    for (const TensorInfo& tensor : tensors) {
      Buffer& buffer = made.emplace_back();
      std::size_t bytes = sizeInBytes(tensor.dtype);
      for (const Extent& extent : tensor.shape) {
        buffer.sizes.push_back(extent.size);
        bytes *= static_cast<std::size_t>(extent.size);
      }
      buffer.data = memory.emplace_back(bytes + 256).data();
      buffer.data = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(buffer.data) + 255) /
                                            256 * 256);
    }
    return made;
  };
  const std::vector<Buffer> inputs = buffers(plan.inputs), outputs = buffers(plan.outputs);
  HostProgram(plan, text).run(inputs, outputs);
}

TEST(TurnsOfAttention, NothingIsMissing) {
  run(kernels());
}

constexpr const char *copied = "that a bulk copy writes; no barrier lies between",
                     *unfenced = "no bulk_copy_fence lies between";
const Omission omissions[] = {
    {"keys_full", "mbarrier_wait(ring.keys_full(now.stage), now.parity);", "", copied},
    {"values_full", "mbarrier_wait(ring.values_full(now.stage), now.parity);", "", copied},
    {"own_full", "mbarrier_wait(at.own_full(), 0);", "", copied},
    {"keys_free", "mbarrier_wait(ring.keys_free(now.stage), now.parity ^ 1);", "", "copies"},
    {"fence_of_slopes", "bulk_copy_fence();\n    group_barrier", "group_barrier", unfenced},
    {"barrier_of_slopes", "group_barrier(1, Tile::loader); // all have kept", "// all have kept",
     "that thread 0 writes; no barrier lies between"},
    {"sums_free", "mbarrier_wait(at.sums_free(slot.stage), slot.parity ^ 1);", ";",
     "that thread 288 reads; no barrier lies between"},
    {"sums_full", "mbarrier_wait(at.sums_full(slot), parity);", "", "was never written"},
    {"fence_of_sums", "bulk_copy_fence();\n    warp_barrier", "warp_barrier", unfenced},
    {"turn", "wait_for_turn(turn, before);", "", "in the same kernel"},
    {"stores", "wait_for_tile_stores_but<0>();", "", "passes its turn on before"},
    {"products", "wgmma_wait<0>();\n    pin(reinterpret_cast<float(&)[Tile::width / 2]>(dk));", "",
     "wgmma"},
    {"last_barrier", "group_barrier(1, Tile::loader); // nobody reads", "// nobody reads", "wgmma"},
};
class TurnsOmissions : public testing::TestWithParam<Omission> {};

TEST_P(TurnsOmissions, AreReported) {
  const Omission& left = GetParam();
  EXPECT_THAT(
      errorOf(ErrorKind::verification, [&] { run(replaced(kernels(), left.step, left.instead)); }),
      testing::HasSubstr(left.message));
}
INSTANTIATE_TEST_SUITE_P(Steps, TurnsOmissions, testing::ValuesIn(omissions),
                         [](const auto& info) { return info.param.name; });

} // namespace
} // namespace kiln::test
