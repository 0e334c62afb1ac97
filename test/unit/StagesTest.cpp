// A program grows stage by stage; each can be saved, edited and resumed, and what was edited is
// what comes out.
#include "test/backend/Helpers.h"
#include "test/numerics/Texts.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

using namespace kiln;
using namespace kiln::test;

namespace {

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << text;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

constexpr const char* kSchedule =
    "#kiln.schedule<lanes = 16, vector = 8, rows = 2, threads = 128, blocks = 4, grid = one_shot, "
    "keep = registers, launch = programmatic>";

CompileOptions until(Stage stage) {
  CompileOptions options;
  options.until = stage;
  options.schedule = kSchedule;
  return options;
}
Program normal(Stage stage = Stage::cuda) {
  return Program::compile(Module::parse(layerNormText(128, "bf16")), until(stage));
}

constexpr Stage kTexts[] = {Stage::module, Stage::fused, Stage::scheduled, Stage::emittable,
                            Stage::cuda};

TEST(Stages, UntilFillsNoMore) {
  for (Stage last : kTexts) {
    Program program = normal(last);
    for (Stage stage : kTexts)
      EXPECT_EQ(program.text(stage).empty(), stage > last) << name(stage) << name(last);
    EXPECT_TRUE(program.cubin().empty());
  }
  EXPECT_EQ(parseStage("emittable"), Stage::emittable);
  EXPECT_HAS(errorOf(ErrorKind::input, [] { parseStage("ptx"); }),
             "unknown stage 'ptx'; known are module, fused, scheduled, emittable, cuda, cubin");
  EXPECT_HAS(errorOf(ErrorKind::input, [] { normal().text(Stage::cubin); }), "is not text");
}

/// Resumed unedited, every stage leads to the same kernels with the same launch plan.
TEST(Stages, EveryTextStageResumes) {
  Program whole = normal();
  auto planOf = [](const std::string& cuda) {
    std::size_t at = cuda.find("// kiln.launch ");
    return cuda.substr(at, cuda.find('\n', at) - at);
  };
  for (Stage stage : kTexts) {
    SCOPED_TRACE(name(stage));
    Program again = Program::resume(stage, whole.text(stage), until(Stage::cuda));
    EXPECT_EQ(planOf(again.text(Stage::cuda)), planOf(whole.text(Stage::cuda)));
    EXPECT_EQ(again.inputs().size(), 3u);
    EXPECT_EQ(again.outputs().size(), 3u);
    EXPECT_EQ(again.inputs()[1].name, "gamma");
  }
}

TEST(Stages, AnEditedModuleComesOut) {
  std::string edited = replaced(normal().text(Stage::module), ": (tensor<?x128xbf16>",
                                "{eps = 2.5e-01 : f32} : (tensor<?x128xbf16>");
  Program program = Program::resume(Stage::module, edited, until(Stage::cuda));
  EXPECT_HAS(program.text(Stage::cuda), " 0.25f);");
}

TEST(Stages, AnEditedFusionComesOut) {
  Program program = Program::resume(
      Stage::fused,
      replaced(normal().text(Stage::fused), "kiln.kernel \"layer_norm\"", "kiln.kernel \"mine\""),
      until(Stage::cuda));
  EXPECT_HAS(program.text(Stage::cuda), "\nkiln_mine(const bf16* x");
}

TEST(Stages, AnEditedScheduleComesOut) {
  std::string edited = replaced(normal().text(Stage::scheduled), "rows = 2", "rows = 1");
  edited = replaced(edited, "threads = 128", "threads = 64");
  Program program = Program::resume(Stage::scheduled, edited, until(Stage::cuda));
  EXPECT_HAS(program.text(Stage::cuda), "KILN_KERNEL(64, 4)");
  EXPECT_HAS(program.text(Stage::cuda),
             "RowTile<128 /*columns*/, 16 /*lanes*/, 8 /*vector*/, 1 /*rows*/, 64 /*threads*/>");
  edited = replaced(edited, "threads = 64", "threads = 2048");
  EXPECT_HAS(errorOf(ErrorKind::input,
                     [&] { Program::resume(Stage::scheduled, edited, until(Stage::cuda)); }),
             "threads = 2048: a multiple of 32 from 32 to 1024 is allowed");
}

TEST(Stages, AnEditedKernelComesOut) {
  std::string edited = replaced(normal().text(Stage::emittable), "1.280000e+02", "1.270000e+02");
  Program program = Program::resume(Stage::emittable, edited, until(Stage::cuda));
  EXPECT_HAS(program.text(Stage::cuda), ", 127.0f)");
  EXPECT_HAS(errorOf(ErrorKind::input,
                     [] { Program::resume(Stage::emittable, "module {}", until(Stage::cuda)); }),
             "no launch plan");
}

/// What CUDA and C++ call so has another type, or is no name at all.
TEST(Stages, AFunctionMayHaveAnyName) {
  for (std::string name :
       {"round", "sinf", "atomicAdd", "max", "int", "main", "row_reduce", "2d"}) {
    std::string text = "func.func @\"" + name +
                       "\"(%x: tensor<?x64xf32>) -> tensor<64xf32> {\n"
                       "  %s = kiln.reduce sum %x dims [0] : tensor<?x64xf32> -> tensor<64xf32>\n"
                       "  return %s : tensor<64xf32>\n}\n";
    try {
      Program program = Program::compile(Module::parse(text, "names"), {});
      EXPECT_EQ(program.kernels()[0].name, "kiln_" + name);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unavailable)
        throw;
      GTEST_SKIP() << error.what();
    }
  }
}

TEST(Stages, EditedCudaIsWhatIsCompiled) {
  std::string edited = replaced(normal().text(Stage::cuda), "using namespace kiln;",
                                "// by hand\nusing namespace kiln;");
  Program text = Program::resume(Stage::cuda, edited, until(Stage::cuda));
  EXPECT_EQ(text.text(Stage::cuda), edited);
  EXPECT_TRUE(text.text(Stage::emittable).empty());
  try {
    Program program = Program::resume(Stage::cuda, edited, until(Stage::cubin));
    ASSERT_EQ(program.kernels().size(), 1u);
    EXPECT_EQ(program.kernels()[0].name, "kiln_layer_norm");
    EXPECT_GT(program.kernels()[0].usage.registers, 15);
    EXPECT_HAS(program.usageJson(), "\"registers\"");
    std::string broken = replaced(edited, "// by hand", "#error by hand");
    EXPECT_HAS(errorOf(ErrorKind::input,
                       [&] { Program::resume(Stage::cuda, broken, until(Stage::cubin)); }),
               "by hand");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unavailable)
      throw;
    GTEST_SKIP() << error.what();
  }
}

TEST(Stages, CubinsAreNotResumed) {
  EXPECT_HAS(errorOf(ErrorKind::input, [] { Program::resume(Stage::cubin, ""); }),
             "nothing follows the stage 'cubin'");
}

TEST(Stages, SavedFilesHoldTheTexts) {
  TemporaryFolder folder;
  CompileOptions options = until(Stage::cuda);
  options.saveTemps = folder.path / "stages" / "of_mine";
  Program program = Program::compile(Module::parse(layerNormText(128, "bf16")), options);
  const char* files[] = {"0-module.mlir", "1-fused.mlir", "2-scheduled.mlir", "3-emittable.mlir",
                         "4-kernel.cu"};
  for (Stage stage : kTexts)
    EXPECT_EQ(read(options.saveTemps / files[static_cast<int>(stage)]), program.text(stage));
  EXPECT_FALSE(exists(options.saveTemps / "5-kernel.cubin"));
  Program again =
      Program::resume(Stage::scheduled, read(options.saveTemps / files[2]), until(Stage::cuda));
  EXPECT_FALSE(again.text(Stage::cuda).empty());
  options.saveTemps = "/proc/no/such/folder";
  EXPECT_HAS(errorOf(ErrorKind::io,
                     [&] { Program::compile(Module::parse(layerNormText(128, "bf16")), options); }),
             "/proc/no/such/folder");
}

} // namespace
