// Sums over lists of tensors under drawn schedules, against fp64: on the host target in every order
// of its blocks, on a GPU again and again with one table, in which the blocks count themselves.
#include "codegen/backend/Driver.h"
#include "codegen/backend/Executable.h"
#include "codegen/backend/Target.h"
#include "codegen/host/HostTarget.h"
#include "test/numerics/Lists.h"
#include "test/numerics/Values.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

using namespace kiln;
using kiln::test::fromBf16;
using kiln::test::kOdd;
using kiln::test::Lengths;
using kiln::test::List;

namespace {

/// A program that sums x and its square over one or two parts, and may store twice x beside that;
/// the second part is bf16.
struct Draw {
  std::mt19937 random;
  int parts;
  bool stores;
  Lengths lengths[2];
  std::string schedule;

  explicit Draw(unsigned seed) : random(seed), parts(1 + int(pick(2))), stores(pick(3) == 0) {
    for (Lengths& own : lengths)
      for (std::int64_t n = pick(20), i = 0; i < n; ++i)
        own.push_back(pick(2) ? kOdd[pick(kOdd.size())] : std::int64_t(pick(20000)));
    const unsigned vector = 1U << pick(3), widest = parts == 2 ? 2 * vector : vector;
    const unsigned threads = std::min(32U * (1 + pick(8)), 1024 / widest / 32 * 32);
    schedule = fmt::format("#kiln.schedule<multi_tensor, vector = {}, chunks = {}, threads = {}, "
                           "blocks = 1, launch = {}>",
                           vector, 1 + pick(16), threads, pick(2) ? "plain" : "programmatic");
  }
  unsigned pick(std::size_t count) { return unsigned(random() % count); }

  std::string text() const {
    std::string arguments, body, values, types;
    const auto add = [&](const std::string& value, const std::string& type, const char* mark) {
      const char* comma = values.empty() ? "" : ", ";
      values += comma + value;
      types += comma + type + mark;
    };
    for (int p = 0; p < parts; ++p) {
      const char* type = p ? "bf16" : "f32";
      arguments +=
          fmt::format("{}%g{}: tensor<?x{}> {{kiln.list = {}}}", p ? ", " : "", p, type, p);
      const std::string x = p ? "%wide" : "%g0";
      if (p)
        body += "  %wide = arith.extf %g1 : tensor<?xbf16> to tensor<?xf32>\n";
      body += fmt::format(
          "  %square{0} = arith.mulf {1}, {1} : tensor<?xf32>\n"
          "  %sum{0} = kiln.reduce sum {1} dims [0] : tensor<?xf32> -> tensor<f32>\n"
          "  %squares{0} = kiln.reduce sum %square{0} dims [0] : tensor<?xf32> -> tensor<f32>\n",
          p, x);
      add(fmt::format("%sum{}", p), "tensor<f32>", "");
      add(fmt::format("%squares{}", p), "tensor<f32>", "");
    }
    if (stores) {
      body += "  %twice = arith.addf %g0, %g0 : tensor<?xf32>\n";
      add("%twice", "tensor<?xf32>", " {kiln.list = 0}");
    }
    std::string plain = types;
    if (const std::size_t at = plain.find(" {"); at != std::string::npos)
      plain.resize(at);
    return fmt::format("func.func @sums({}) -> ({}) {{\n{}  return {} : {}\n}}\n", arguments, types,
                       body, values, plain);
  }
};

/// The tensors of a draw, and what their sums are.
struct Tensors {
  const Draw& draw;
  List<float> x, twice;
  List<std::uint16_t> half;
  double exact[4] = {}, terms[4] = {}; // sums; of absolute values

  explicit Tensors(Draw& draw)
      : draw(draw), x(draw.lengths[0], -1.f), twice(draw.lengths[0], -1.f),
        half(draw.lengths[1], 0x7fc1) {
    std::normal_distribution<float> normal(0.5f);
    for (std::size_t i = 0; i < draw.lengths[0].size(); ++i)
      for (float& value : x[i])
        add(0, value = normal(draw.random));
    for (std::size_t i = 0; i < draw.lengths[1].size(); ++i)
      for (std::uint16_t& value : half[i])
        add(2, fromBf16(value = std::uint16_t(0x3f00 + draw.pick(256) + 0x8000 * draw.pick(2))));
  }
  void add(int at, double value) {
    exact[at] += value;
    terms[at] += std::abs(value);
    exact[at + 1] += value * value;
    terms[at + 1] += value * value;
  }
  void expect(const float* sums) {
    for (int i = 0; i < 2 * draw.parts; ++i)
      EXPECT_NEAR(sums[i], exact[i], 2e-6 * terms[i]) << i;
  }
};

Program compiled(const Draw& draw, Stage until, std::string_view arch = "sm_90a") {
  CompileOptions options;
  options.until = until;
  options.arch = arch;
  options.schedule = draw.schedule;
  return Program::compile(Module::parse(draw.text()), options);
}

TEST(ListSums, OfDrawnSchedulesInEveryOrderOfBlocks) {
  for (unsigned seed = 1; seed <= 24; ++seed) {
    Draw draw(seed);
    SCOPED_TRACE(fmt::format("seed {}: {}\n{}", seed, draw.schedule, draw.text()));
    Tensors tensors(draw);
    const Program program = compiled(draw, Stage::cuda);
    ASSERT_EQ(program.launches(), 1u);
    const HostProgram host(parseLaunchPlan(program.launchPlan()), program.text(Stage::cuda), {});
    std::vector<TensorList> inputs{tensors.x.buffers()}, outputs;
    if (draw.parts == 2)
      inputs.push_back(tensors.half.buffers());
    if (draw.stores)
      outputs.push_back(tensors.twice.buffers());
    const TensorLists lists(program.lists(), inputs, outputs);
    float first[4] = {};
    for (BlockOrder order : {BlockOrder::forward, BlockOrder::reversed, BlockOrder::shuffled}) {
      float sums[4] = {NAN, NAN, NAN, NAN};
      std::vector<Buffer> numbers;
      for (int i = 0; i < 2 * draw.parts; ++i)
        numbers.push_back({sums + i, {}, {}});
      host.run(lists.inputs(lists.table().data(), {}), numbers, {.order = order, .seed = seed});
      tensors.expect(sums);
      if (order == BlockOrder::forward)
        std::ranges::copy(sums, first);
      for (int i = 0; i < 2 * draw.parts; ++i)
        EXPECT_EQ(sums[i], first[i]) << i;
    }
    for (std::size_t i = 0; draw.stores && i < draw.lengths[0].size(); ++i)
      for (std::int64_t k = 0; k < draw.lengths[0][i]; ++k)
        ASSERT_EQ(tensors.twice[i][k], 2 * tensors.x[i][k]);
    EXPECT_TRUE(tensors.twice.guardsIntact());
  }
}

/// The list as it lies in memory of the device, guards and all.
template <class T> TensorList onDevice(List<T>& list, DeviceBuffer& memory) {
  memory.upload(list.bytes());
  TensorList moved = list.buffers();
  for (Buffer& tensor : moved)
    if (tensor.data)
      tensor.data = static_cast<std::byte*>(memory.data()) +
                    (static_cast<std::byte*>(tensor.data) - list.bytes().data());
  return moved;
}

TEST(ListSumsOnGpu, OfDrawnSchedulesAgainAndAgainAndAsAGraph) {
  if (std::string why = whyNoGpu(); !why.empty())
    GTEST_SKIP() << why;
  const DeviceInfo& device = Driver::get().currentDevice();
  for (unsigned seed = 101; seed <= 160; ++seed) {
    Draw draw(seed);
    SCOPED_TRACE(fmt::format("seed {}: {}\n{}", seed, draw.schedule, draw.text()));
    Tensors tensors(draw);
    const Program program =
        compiled(draw, Stage::cubin, targetOfCapability(device.major, device.minor).arch);
    const Executable executable(program);
    DeviceBuffer x(tensors.x.bytes().size()), half(tensors.half.bytes().size()),
        twice(tensors.twice.bytes().size()), sums(16);
    std::vector<TensorList> inputs{onDevice(tensors.x, x)}, outputs;
    if (draw.parts == 2)
      inputs.push_back(onDevice(tensors.half, half));
    if (draw.stores)
      outputs.push_back(onDevice(tensors.twice, twice));
    const TensorLists lists(program.lists(), inputs, outputs);
    DeviceBuffer table(lists.tableBytes());
    Stream stream;
    lists.upload(table.data(), stream.get());
    std::vector<Buffer> numbers;
    for (int i = 0; i < 2 * draw.parts; ++i)
      numbers.push_back({static_cast<float*>(sums.data()) + i, {}, {}});
    const std::vector<Buffer> arguments = lists.inputs(table.data(), {});
    DeviceBuffer workspace(executable.workspaceBytes(arguments));
    const auto launch = [&](CuStream to) {
      executable.launch(arguments, numbers, workspace.data(), to);
    };
    const Graph graph = Graph::capture(stream, launch);
    float first[4] = {};
    for (int time = 0; time < 40; ++time) {
      sums.fill(0xff);
      workspace.fill(0xff);
      for (int many = time % 4; many >= 0; --many) // behind each other, too
        if (time % 2)
          graph.launch(stream);
        else
          launch(stream.get());
      stream.synchronize();
      float now[4] = {};
      sums.download(std::as_writable_bytes(std::span(now)));
      if (time == 0) {
        tensors.expect(now);
        std::ranges::copy(now, first);
      }
      for (int i = 0; i < 2 * draw.parts; ++i)
        ASSERT_EQ(now[i], first[i]) << i;
    }
  }
}

} // namespace
