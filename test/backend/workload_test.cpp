// Workload files: what a line stands for, and what is said of bad ones.
#include "kiln/workload.h"
#include "test/backend/Helpers.h"

using namespace kiln;
using namespace kiln::test;

namespace {

using Shape = std::vector<std::int64_t>;

TEST(Workload, OneLineAnEntry) {
  auto workload = parseWorkload("# comment only\n"
                                "\n"
                                "layer_norm 65536x128 bf16 59.96%   # trailing comment\r\n"
                                "\tsoftmax ?x256 f32 0.25 backward");
  ASSERT_TRUE(workload.errors.empty());
  ASSERT_EQ(workload.entries.size(), 2u);
  const WorkloadEntry& first = workload.entries[0];
  EXPECT_EQ(first.what, "layer_norm");
  EXPECT_FALSE(first.isFile);
  EXPECT_EQ(first.shape, (Shape{65536, 128}));
  EXPECT_EQ(first.dtype, DType::bf16);
  EXPECT_DOUBLE_EQ(first.share, 0.5996);
  EXPECT_FALSE(first.backward);
  EXPECT_EQ(first.line, 3);
  EXPECT_EQ(workload.entries[1].shape, (Shape{-1, 256}));
  EXPECT_TRUE(workload.entries[1].backward);
}

TEST(Workload, DTypesAndDirectionsMultiply) {
  auto workload = parseWorkload("layer_norm 8x8 bf16,f32 1 forward,backward");
  ASSERT_EQ(workload.entries.size(), 4u);
  EXPECT_EQ(workload.entries[1].dtype, DType::f32);
  EXPECT_FALSE(workload.entries[1].backward);
  EXPECT_EQ(workload.entries[2].dtype, DType::bf16);
  EXPECT_TRUE(workload.entries[2].backward);
}

TEST(Workload, SettingsOfAnOpStandAmongItsOptions) {
  auto workload = parseWorkload("attention 8x16x4096x64 bf16 1 causal=last,backward key_heads=4");
  ASSERT_EQ(workload.errors, std::vector<std::string>());
  ASSERT_EQ(workload.entries.size(), 1u);
  const WorkloadEntry& entry = workload.entries[0];
  EXPECT_TRUE(entry.backward);
  const std::vector<std::pair<std::string, std::string>> settings = {{"causal", "last"},
                                                                     {"key_heads", "4"}};
  EXPECT_EQ(entry.settings, settings);
  EXPECT_EQ(entry.op().settings, settings);
  EXPECT_EQ(settingsLabel(entry.settings), " causal=last key_heads=4");
  EXPECT_EQ(parseSettings("causal=last,key_heads=4"), settings);
  EXPECT_TRUE(parseSettings("").empty());
  EXPECT_HAS(errorOf(ErrorKind::input, [] { parseSettings("causal"); }), "'causal' is no setting");
}

TEST(Workload, BackwardsMayPromiseNothing) {
  auto workload = parseWorkload("layer_norm 8x8 f32 1 forward,backward,no_read_ahead\n"
                                "layer_norm 8x8 f32 1 backward");
  ASSERT_EQ(workload.entries.size(), 3u);
  EXPECT_EQ(workload.entries[0].direction(), "");
  EXPECT_TRUE(workload.entries[0].options().readAhead);
  EXPECT_EQ(workload.entries[1].direction(), " backward no_read_ahead");
  EXPECT_FALSE(workload.entries[1].options().readAhead);
  EXPECT_TRUE(workload.entries[1].options().backward);
  EXPECT_EQ(workload.entries[2].direction(), " backward");
}

TEST(Workload, FilesLieBesideIt) {
  auto workload = parseWorkload("gate.mlir 64x2 - 10% function=gate\n"
                                "/a/b.mlir - - 0",
                                "folder/list.txt");
  ASSERT_TRUE(workload.errors.empty());
  EXPECT_TRUE(workload.entries[0].isFile);
  EXPECT_EQ(workload.entries[0].what, "folder/gate.mlir");
  EXPECT_EQ(workload.entries[0].shape, (Shape{64, 2}));
  EXPECT_EQ(workload.entries[0].function, "gate");
  EXPECT_EQ(workload.entries[1].what, "/a/b.mlir");
  EXPECT_TRUE(workload.entries[1].shape.empty());
}

TEST(Workload, BadLinesAreNumberedAndTheRestIsParsed) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"layer_norm 8x8 bf16", "3 of at least 4 fields"},
      {"layer_norm 8xwide bf16 1", "'8xwide' is no shape"},
      {"layer_norm 8x99999999999999999999 bf16 1", "is no shape"},
      {"layer_norm 8x8 fp4 1", "fp4"},
      {"layer_norm 8x8 - 1", "an op needs a dtype"},
      {"layer_norm 8x8 bf16 101%", "'101%' is no share"},
      {"layer_norm 8x8 bf16 nan", "'nan' is no share"},
      {"layer_norm 8x8 bf16 1 sideways", "'sideways' is no option"},
      {"layer_norm 8x8 bf16 1 function=f", "function=NAME is for files"},
      {"layer_norm 8x8 bf16 1 no_read_ahead", "there is none"},
      {"attention 8x8x8 bf16 1 causal=", "'causal=' is no option"},
      {"a.mlir 8 - 1 causal=last", "'causal=last' is a setting of an op"},
      {"a.mlir ? - 1", "must be numbers"},
      {"a.mlir 8 bf16 1", "must be '-'"}};
  std::string text;
  for (const auto& [line, message] : bad)
    text += line + "\nsoftmax 8x8 f32 0\n";
  auto workload = parseWorkload(text, "w.txt");
  EXPECT_EQ(workload.entries.size(), bad.size());
  ASSERT_EQ(workload.errors.size(), bad.size());
  for (std::size_t i = 0; i < bad.size(); ++i) {
    EXPECT_HAS(workload.errors[i], "w.txt:" + std::to_string(2 * i + 1) + ": ");
    EXPECT_HAS(workload.errors[i], bad[i].second);
  }
}

TEST(Workload, ShapesAsText) {
  EXPECT_EQ(shapeText(parseShape("?x0x128")), "?x0x128");
  EXPECT_HAS(errorOf(ErrorKind::input, [] { parseShape(""); }), "is no shape");
  EXPECT_HAS(errorOf(ErrorKind::input, [] { parseShape("-1x8"); }), "is no shape");
}

} // namespace
