// The launch plan as text: round trip, strict reading, finding it in CUDA source.
#include "codegen/backend/LaunchPlan.h"
#include "test/backend/Helpers.h"
#include "test/backend/Plans.h"
#include "test/backend/TileKernel.h"

#include <random>

using namespace kiln;
using namespace kiln::test;

namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " not in " << text;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string errorAfter(const std::string& from, const std::string& to) {
  std::string text = replaced(toJson(rowPlan()), from, to);
  return errorOf(ErrorKind::input, [&] { parseLaunchPlan(text); });
}

TEST(LaunchPlan, RoundTrip) {
  std::string text = toJson(rowPlan());
  EXPECT_EQ(text.find('\n'), std::string::npos);
  LaunchPlan plan = parseLaunchPlan(text);
  EXPECT_EQ(toJson(plan), text);
  EXPECT_EQ(plan.inputs[0].shape[0].symbol, 0);
  EXPECT_EQ(plan.inputs[0].strides, (std::vector<std::int64_t>{-1, 1}));
  EXPECT_EQ(plan.outputs[1].alignment, 4);
  EXPECT_TRUE(plan.inputs[0].older);
  EXPECT_FALSE(plan.inputs[1].older);
  EXPECT_EQ(plan.kernels[0].schedule, "#kiln.schedule<vector = 16>");
  EXPECT_TRUE(plan.kernels[0].programmatic);
  EXPECT_EQ(plan.kernels[0].arguments[6].product.factors[1].size, 128);
  EXPECT_EQ(plan.kernels[1].grid, KernelLaunch::Grid::fixed);
}

TEST(LaunchPlan, NamesWithQuotesAndLineEndsStayOnOneLine) {
  LaunchPlan plan = rowPlan();
  plan.function = "a\"b\\";
  EXPECT_EQ(parseLaunchPlan(toJson(plan)).function, plan.function);
  plan.function = "a\"b\nc\\";
  std::string text = toJson(plan);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { parseLaunchPlan(text); }),
             "plan.function is 'a\"b\\x0ac\\'; texts have no control characters");
  plan = rowPlan();
  plan.kernels[0].name += "\x1b[31m";
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { parseLaunchPlan(toJson(plan)); }),
             "plan.kernels[0].name is 'norm_main\\x1b[31m'");
}

TEST(LaunchPlan, NestingIsLimited) {
  for (int depth : {100, 1000000}) {
    const std::string deep = std::string(depth, '[') + std::string(depth, ']');
    EXPECT_HAS(errorOf(ErrorKind::input, [&] { parseLaunchPlan(deep); }), "nested more than 32");
    EXPECT_HAS(errorOf(ErrorKind::input,
                       [&] { parseLaunchPlan("{\"function\": \"f\", \"inputs\": " + deep + "}"); }),
               "nested more than 32");
  }
}

TEST(LaunchPlan, RefusesWhatItDoesNotKnow) {
  EXPECT_HAS(
      errorAfter("\"threads\"", "\"thread\""),
      "plan.kernels[0] has the unknown key 'thread'; allowed are name, family, schedule, threads");
  EXPECT_HAS(errorAfter("\"bf16\"", "\"bf17\""), "'bf17' is no element type; allowed are f64");
  EXPECT_HAS(errorAfter("\"resident\"", "\"residant\""),
             "plan.kernels[0].grid is 'residant'; allowed are oneShot, resident, fixed");
  EXPECT_HAS(errorAfter("\"older\":true", "\"older\":1"),
             "plan.inputs[0].older is not true or false");
  EXPECT_HAS(errorAfter("\"kind\":\"rows\"", "\"kind\":\"row\""),
             "plan.kernels[0].arguments[5].kind is 'row'; allowed are buffer, rows, size");
}

TEST(LaunchPlan, RefusesNumbersOutOfRange) {
  EXPECT_HAS(errorAfter("\"threads\":256", "\"threads\":2048"),
             "plan.kernels[0].threads is 2048; allowed are whole numbers from 1 to 1024");
  EXPECT_HAS(errorAfter("\"threads\":256", "\"threads\":25.5"), "threads is 25.5");
  EXPECT_HAS(errorAfter("\"rowsPerBlock\":8", "\"rowsPerBlock\":0"), "rowsPerBlock is 0");
  EXPECT_HAS(errorAfter("\"threads\":256", "\"threads\":18446744073709551615"), "allowed are");
  EXPECT_HAS(errorAfter("\"alignment\":16", "\"alignment\":12"), "allowed are powers of two");
  EXPECT_HAS(errorAfter("[\"s0\",128]", "[\"s64\",128]"), "\"s0\" to \"s63\"");
  EXPECT_HAS(errorAfter("[\"s0\",128]", "[\"q\",128]"), "plan.inputs[0].shape[0] is 'q'");
  EXPECT_HAS(errorAfter("[-1,1]", "[-1,1,1]"), "has 3 strides for 2 dimensions");
}

TEST(LaunchPlan, RefusesContradictions) {
  EXPECT_HAS(errorAfter("{\"kind\":\"buffer\",\"name\":\"gamma\"}",
                        "{\"kind\":\"buffer\",\"name\":\"gama\"}"),
             "plan.kernels[0].arguments[2] names the buffer 'gama'; the plan has x, gamma, y");
  EXPECT_HAS(errorAfter("\"dimension\":0", "\"dimension\":2"), "'x' has 2 dimensions, from 0");
  EXPECT_HAS(errorAfter("\"kernel\":0", "\"kernel\":2"), "the plan has 2 kernels, from 0");
  EXPECT_HAS(errorAfter("\"blocksOf\":1", "\"blocksOf\":7"), "'flag' follows the grid of kernel 7");
  EXPECT_HAS(errorAfter("\"name\":\"gamma\"", "\"name\":\"x\""), "two buffers are named 'x'");
  EXPECT_HAS(errorAfter("\"name\":\"gamma\"", "\"name\":\"\""), "a buffer has no name");
}

TEST(LaunchPlan, TellsWhatStridesAreMultiplesOf) {
  LaunchPlan plan = rowPlan();
  EXPECT_EQ(toJson(plan).find("strideMultiple"), std::string::npos);
  plan.inputs[0].strideMultiple = 8;
  const std::string text = toJson(plan);
  EXPECT_EQ(parseLaunchPlan(text).inputs[0].strideMultiple, 8);
  plan.inputs[0].strideMultiple = 0;
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { parseLaunchPlan(toJson(plan)); }), "strideMultiple");
}

TEST(LaunchPlan, OnlyResidentGridsHaveAMultipleOfBlocks) {
  LaunchPlan plan = rowPlan();
  plan.kernels[0].blocksMultiple = 8;
  EXPECT_EQ(parseLaunchPlan(toJson(plan)).kernels[0].blocksMultiple, 8);
  plan.kernels[0].grid = KernelLaunch::Grid::oneShot;
  EXPECT_HAS(
      errorOf(ErrorKind::input, [&] { parseLaunchPlan(toJson(plan)); }),
      "plan.kernels[0].blocksMultiple is 8, which only a resident grid can heed; its grid is "
      "oneShot");
}

/// The first kernel of the plan with two more parts, of 100 rows and of one.
LaunchPlan planOfParts() {
  LaunchPlan plan = rowPlan();
  plan.kernels[0].grid = KernelLaunch::Grid::oneShot;
  plan.kernels[0].further = {{{{100, -1}}}, {}};
  plan.kernels[1].arguments.push_back({KernelArgument::Kind::blocks, "", 0, {}, 0, 2});
  return plan;
}

TEST(LaunchPlan, KeepsPartsThroughItsText) {
  const std::string text = toJson(planOfParts());
  const LaunchPlan plan = parseLaunchPlan(text);
  EXPECT_EQ(toJson(plan), text);
  ASSERT_EQ(plan.kernels[0].further.size(), 2u);
  EXPECT_EQ(plan.kernels[0].further[0].factors[0].size, 100);
  EXPECT_TRUE(plan.kernels[0].further[1].factors.empty());
  EXPECT_EQ(plan.kernels[1].arguments.back().parts, 2);
  const auto refusal = [&](const std::string& from, const std::string& to) {
    return errorOf(ErrorKind::input, [&] { parseLaunchPlan(replaced(text, from, to)); });
  };
  EXPECT_HAS(refusal("\"parts\":2", "\"parts\":4"), "].parts is 4; kernel 0 has 3");
  EXPECT_HAS(refusal("\"further\":[[100],[]]", "\"further\":[100,[]]"),
             "plan.kernels[0].further[0] is not an array");
  EXPECT_HAS(refusal("\"grid\":\"oneShot\"", "\"grid\":\"fixed\",\"blocks\":2"),
             "plan.kernels[0] has 2 further parts, a fixed grid and clusters of 1; parts need a "
             "oneShot or resident grid");
}

TEST(LaunchPlan, KeepsTilesMapsAndRolesThroughItsText) {
  const std::string text = toJson(tilePlan());
  const LaunchPlan plan = parseLaunchPlan(text);
  EXPECT_EQ(toJson(plan), text);
  const KernelLaunch& kernel = plan.kernels[0];
  EXPECT_EQ(kernel.tiles.size(), 2u);
  EXPECT_EQ(kernel.tiles[0][0].tile, 128);
  EXPECT_EQ(kernel.tensorMaps[0].dimensions[3].strideOf, 0);
  EXPECT_EQ(kernel.tensorMaps[2].dimensions[1].stride.factors.size(), 2u);
  EXPECT_EQ(kernel.arguments[2].map, 2);
  EXPECT_EQ(kernel.roles, tilePlan().kernels[0].roles);
  EXPECT_HAS(text, R"("grid":"tiles","blocks":0,"tiles":[[{"product":["s0"],"tile":128},)");
  EXPECT_FALSE(contains(toJson(rowPlan()), "tiles")); // nor anything else that rows have not
  EXPECT_FALSE(contains(toJson(rowPlan()), "tensorMaps"));
  EXPECT_FALSE(contains(toJson(rowPlan()), "roles"));
}

/// Tiles of known sizes are counted, those of others are not known to be whole clusters.
TEST(LaunchPlan, KnownTilesMakeWholeClusters) {
  LaunchPlan plan = tilePlan();
  plan.kernels[0].tiles[0].back() = {{{{11, -1}, {16, -1}}}, 128}; // two
  EXPECT_EQ(parseLaunchPlan(toJson(plan)).kernels[0].cluster, 2);
}

TEST(LaunchPlan, RefusesTilesMapsAndRolesThatCannotBe) {
  const auto after = [](auto change) {
    LaunchPlan plan = tilePlan();
    change(plan.kernels[0]);
    return errorOf(ErrorKind::input, [&] { parseLaunchPlan(toJson(plan)); });
  };
  using Kernel = KernelLaunch;
  EXPECT_HAS(after([](Kernel& k) { k.tiles.resize(4); }),
             "tiles has 4 dimensions; a grid has 1 to");
  EXPECT_HAS(after([](Kernel& k) { k.blocks = 1; }), "has 1 blocks a multiprocessor and 2 dim");
  EXPECT_HAS(
      after([](Kernel& k) { k.tiles[0].pop_back(); }),
      "plan.kernels[0].tiles[0] is not a multiple of the cluster of 2 for all sizes; give it "
      "a count with a product of [2] and a tile of 1");
  EXPECT_HAS(after([](Kernel& k) { k.tiles[0].back() = {{{{100, -1}}}, 128}; }),
             "plan.kernels[0].tiles[0] is not a multiple of the cluster of 2 for all sizes");
  EXPECT_HAS(after([](Kernel& k) { k.grid = Kernel::Grid::oneShot; }),
             "plan.kernels[0] has a oneShot grid, which takes no key 'tiles'");
  EXPECT_HAS(after([](Kernel& k) { k.tiles[0][0].tile = 0; }), "tiles[0][0].tile is 0");
  EXPECT_HAS(after([](Kernel& k) { k.roles[0].registers = 28; }), "4 warps with 28 registers");
  EXPECT_HAS(after([](Kernel& k) { k.roles[0].warps = 2; }), "2 warps with 24 registers a thread");
  EXPECT_HAS(after([](Kernel& k) { k.roles.pop_back(); }), "have 128 threads, the block has 256");
  EXPECT_HAS(after([](Kernel& k) { k.roles[0].registers = 32; }),
             "plan.kernels[0].roles end with 33792 registers a block, 67584 with 2 blocks a "
             "multiprocessor, which has 65536; give a role fewer");
  EXPECT_HAS(after([](Kernel& k) { k.roles[1].registers = 264; }), "whole numbers from 24 to 256");
  EXPECT_HAS(after([](Kernel& k) { k.arguments[0].map = 3; }),
             "passes tensor map 3; it has 3, from");
  EXPECT_HAS(after([](Kernel& k) { k.arguments[0].map = 1; }),
             "plan.kernels[0].tensorMaps[0] is passed by 0 arguments; each map needs one");
  EXPECT_HAS(after([](Kernel& k) { k.arguments[0].name = "z"; }), "names the buffer 'z'");
  EXPECT_HAS(after([](Kernel& k) { k.tensorMaps[0].dimensions[1].strideOf = 4; }),
             "has the stride of dimension 4; 'x' has 4 dimensions, from 0");
  EXPECT_HAS(
      after([](Kernel& k) { k.tensorMaps[0].dimensions[0].strideOf = 1; }),
      "dimensions[0] has a stride; the elements of the innermost dimension lie side by side");
  EXPECT_HAS(after([](Kernel& k) { k.tensorMaps[0].dtype = DType::f32; }),
             "shows 'x' of bf16 as f32; strides are counted in elements");
  EXPECT_HAS(after([](Kernel& k) { k.tensorMaps[0].dimensions.resize(6); }),
             "plan.kernels[0].tensorMaps[0] has 6 dimensions; a tensor map has 1 to 5");
  EXPECT_HAS(
      after([](Kernel& k) { k.tensorMaps[2].swizzle = 32; }),
      "a row of the box has 64 bytes (32 elements of bf16), a swizzle of 32 bytes allows 32; "
      "take a wider swizzle or a box of 16 elements and more copies");
}

TEST(LaunchPlan, RefusesOtherText) {
  for (const char* text : {"", "{", "[]", "3", "{\"function\":3}", "{\"function\":\"f\"}", "null"})
    EXPECT_HAS(errorOf(ErrorKind::input, [&] { parseLaunchPlan(text); }), "launch plan: ");
}

TEST(LaunchPlan, DamagedTextIsRefusedOrRead) {
  const std::string good[] = {toJson(rowPlan()), toJson(tilePlan())};
  std::mt19937 random(1);
  for (int i = 0; i < 10000; ++i) {
    std::string text = good[i % 4 / 2];
    text[random() % text.size()] = static_cast<char>(random() % 256);
    if (i % 2)
      text.resize(random() % text.size());
    try {
      parseLaunchPlan(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::input);
    }
  }
}

TEST(LaunchPlan, FoundInCuda) {
  std::string line = "// kiln.launch " + toJson(rowPlan());
  std::string cuda = "#include \"row.cuh\"\r\n  " + line + "\r\nvoid f() {}\n";
  EXPECT_EQ(launchPlanOfCuda(cuda).function, "norm");
  EXPECT_EQ(launchPlanOfCuda(line).function, "norm");
  EXPECT_EQ(launchPlanOfCuda("//  kiln.launch {, a name\n" + line).function, "norm");
  EXPECT_HAS(errorOf(ErrorKind::input, [] { launchPlanOfCuda("void f() {}"); }),
             "has 0 lines '// kiln.launch {...}'; it needs exactly one");
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { launchPlanOfCuda(cuda + line); }), "has 2 lines");
}

TEST(DType, NamesAndSizes) {
  for (DType dtype :
       {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::i1})
    EXPECT_EQ(parseDType(name(dtype)), dtype);
  const std::pair<const char*, DType> others[] = {
      {"fp32", DType::f32}, {"float", DType::f32},   {"float32", DType::f32},  {"fp16", DType::f16},
      {"half", DType::f16}, {"float16", DType::f16}, {"bfloat16", DType::bf16}};
  for (const auto& [other, dtype] : others)
    EXPECT_EQ(parseDType(other), dtype) << other;
  EXPECT_HAS(errorOf(ErrorKind::input, [] { parseDType("bf61"); }), "did you mean 'bf16'?");
  EXPECT_HAS(errorOf(ErrorKind::input, [] { parseDType("flaot"); }), "did you mean 'float'?");
  EXPECT_EQ(sizeInBytes(DType::bf16), 2u);
  EXPECT_EQ(sizeInBytes(DType::i1), 1u);
}

} // namespace
