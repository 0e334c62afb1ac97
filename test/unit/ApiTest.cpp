// The C++ interface: modules, errors with their places, remarks, many threads.
#include "kiln/derivative.h"
#include "kiln/plan.h"
#include "kiln/tuner.h"
#include "kiln/verify.h"
#include "test/backend/Helpers.h"
#include "test/numerics/Texts.h"
#include "test/unit/Options.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

using namespace kiln;
using namespace kiln::test;

namespace {

TEST(Api, ModulesFromTextAndFromAnOp) {
  Module module = Module::parse(layerNormText(64, "bf16") + gateText(64, "f32"), "two.mlir");
  EXPECT_EQ(module.functions(), (std::vector<std::string>{"layer_norm", "gate"}));
  for (const char* op : {"layer_norm", "rms_norm", "softmax"})
    for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      Module made = Module::fromOp({op, {-1, 4, 96}, dtype});
      EXPECT_EQ(made.functions(), std::vector<std::string>{op});
      Program program = Program::compile(made, untilCuda());
      EXPECT_EQ(program.inputs()[0].name, "x");
      EXPECT_EQ(program.inputs()[0].dtype, dtype);
      EXPECT_FALSE(program.inputs()[0].shape[0].isStatic());
      EXPECT_EQ(program.inputs()[0].shape[1].size, 4);
      EXPECT_EQ(program.outputs()[0].name, "y");
    }
}

TEST(Api, NamesOfArchsAndOps) {
  for (const std::string& arch : archNames())
    EXPECT_EQ(parseArch(arch), arch);
  EXPECT_EQ(parseArch("compute_90"), "sm_90a");
  EXPECT_HAS(errorOf(ErrorKind::input, [] { parseArch("sm90"); }), "did you mean 'sm_90a'?");
  for (const std::string& op : Module::ops())
    EXPECT_EQ(Module::fromOp({op, {2, 4, 96}, DType::f32}).functions(),
              std::vector<std::string>{op});
  EXPECT_HAS(errorOf(ErrorKind::input, [] { Module::fromOp({"soft_max", {4, 8}, DType::f32}); }),
             "did you mean 'softmax'?");
  EXPECT_HAS(errorOf(ErrorKind::input, [] { Module::fromOp({"cross_entropy", {8}, DType::f32}); }),
             "has 1 size (8)");
}

TEST(Api, BackwardNamesItsGradients) {
  CompileOptions options = untilCuda();
  options.backward = true;
  Program program =
      Program::compile(Module::fromOp({"layer_norm", {-1, 128}, DType::bf16}), options);
  std::vector<std::string> inputs, outputs;
  for (auto& tensor : program.inputs())
    inputs.push_back(tensor.name);
  for (auto& tensor : program.outputs())
    outputs.push_back(tensor.name);
  EXPECT_EQ(inputs, (std::vector<std::string>{"x", "gamma", "mean", "rstd", "dy"}));
  EXPECT_EQ(outputs, (std::vector<std::string>{"dx", "dgamma", "dbeta"}));
}

TEST(Api, ABackwardReadsAheadOnlyWhereThatIsPromised) {
  const Module module = Module::fromOp({"layer_norm", {65536, 128}, DType::bf16});
  CompileOptions options = untilCuda();
  options.backward = true;
  for (bool promised : {true, false}) {
    options.readAhead = promised;
    const Program program = Program::compile(module, options);
    EXPECT_EQ(program.inputs()[0].older, promised);
    EXPECT_EQ(program.text(Stage::scheduled).find("older_first") != std::string::npos, promised);
    EXPECT_EQ(differentiate(module, "", promised).module.text().find("kiln.older") !=
                  std::string::npos,
              promised);
  }
  options.schedule = "#kiln.schedule<lanes = 16, vector = 8, rows = 1, threads = 128, blocks = 4, "
                     "grid = one_shot, keep = registers, launch = older_first>";
  EXPECT_HAS(errorOf(ErrorKind::infeasible, [&] { Program::compile(module, options); }),
             "older_first needs an input that is known to be older");
}

/// Whether nothing fits is told by what a pass says of its error, not by the words that it has.
TEST(Api, AnErrorIsOfTheKindThatItsPassSays) {
  CompileOptions options = untilCuda();
  options.function = "no schedule of it";
  const Module module = Module::fromOp({"softmax", {4, 8}, DType::f32});
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { Program::compile(module, options); }),
             "no function @no schedule of it");
}

TEST(Api, LossAndGradientAsOneFunction) {
  const Module both = withGradient(
      Module::parse("func.func @f(%x: tensor<?x8xf32>, %w: tensor<8xf32> {kiln.gradient = false}) "
                    "-> tensor<?xf32> {\n"
                    "  %s = kiln.softmax %x : tensor<?x8xf32> -> tensor<?x8xf32>\n"
                    "  %ws = kiln.broadcast %w dims [1] like %s : tensor<8xf32>, tensor<?x8xf32> "
                    "-> tensor<?x8xf32>\n"
                    "  %p = arith.mulf %s, %ws : tensor<?x8xf32>\n"
                    "  %loss = kiln.reduce sum %p dims [1] : tensor<?x8xf32> -> tensor<?xf32>\n"
                    "  return %loss : tensor<?xf32>\n}\n"));
  CompileOptions options = untilCuda();
  const Program program = Program::compile(both, options); // the module's only function
  const auto names = [](const std::vector<TensorInfo>& tensors) {
    std::string all;
    for (const TensorInfo& tensor : tensors)
      all += tensor.name + " ";
    return all;
  };
  EXPECT_EQ(names(program.inputs()), "x w dloss ");
  EXPECT_EQ(names(program.outputs()), "loss dx ");
  EXPECT_HAS(errorOf(ErrorKind::input,
                     [] {
                       withGradient(
                           Module::parse("func.func @f(%x: tensor<4xi32>) -> tensor<4xi32> "
                                         "{\n  return %x : tensor<4xi32>\n}\n"));
                     }),
             "nothing to differentiate");
}

TEST(Api, ADerivativeReturnsEachGradientOnce) {
  using From = Derivative::Source::From;
  const std::string type = "tensor<?x64xf32>";
  const Derivative sum = differentiate(Module::parse(
      "func.func @f(%x: " + type + ", %r: " + type + ", %b: tensor<64xf32>, %n: " + type +
      " {kiln.gradient = false}) -> " + type + " {\n  %0 = arith.addf %x, %r : " + type +
      "\n  %1 = kiln.broadcast %b dims [1] like %0 : tensor<64xf32>, " + type + " -> " + type +
      "\n  %2 = arith.addf %0, %1 : " + type + "\n  %3 = arith.addf %2, %n : " + type +
      "\n  return %3 : " + type + "\n}"));
  ASSERT_EQ(sum.gradients.size(), 4U);
  EXPECT_EQ(sum.gradients[0].from, From::given); // both are the result's gradient itself
  EXPECT_EQ(sum.gradients[1].from, From::given);
  EXPECT_EQ(sum.gradients[2].from, From::backward);
  EXPECT_EQ(sum.gradients[3].from, From::nowhere);
  EXPECT_EQ(sum.forward, "f"); // nothing is saved
  CompileOptions options = untilCuda();
  options.function = sum.backward;
  EXPECT_EQ(Program::compile(sum.module, options).outputs().size(), 1U);

  const Derivative norm =
      differentiate(Module::fromOp({"softmax", {-1, 64}, DType::f32}), "softmax");
  EXPECT_EQ(norm.module.functions().size(), 2U);
  EXPECT_EQ(norm.gradients[0].from, From::backward);
  EXPECT_HAS(errorOf(ErrorKind::input,
                     [] {
                       differentiate(Module::parse(
                           "func.func @f(%x: tensor<4x8xf32> {kiln.gradient = false}) -> "
                           "tensor<4x8xf32> {\n  %0 = math.exp %x : tensor<4x8xf32>\n  return %0 "
                           ": tensor<4x8xf32>\n}"));
                     }),
             "nothing to differentiate");
}

void expectEmpty(const std::string& what, const std::vector<std::function<void()>>& calls) {
  for (const auto& call : calls)
    EXPECT_HAS(errorOf(ErrorKind::input, call), "this kiln::" + what + " is empty");
}

TEST(Api, EmptyModulesAndProgramsAreRefused) {
  TemporaryFolder folder;
  Module full = Module::fromOp({"softmax", {-1, 64}, DType::f32}), moved = std::move(full);
  for (const Module& module : {Module(), full})
    expectEmpty("Module",
                {[&] { module.text(); }, [&] { module.functions(); }, [&] { module.state(); },
                 [&] { Program::compile(module); }, [&] { differentiate(module); },
                 [&] { plan(module); },
                 [&] { Cache::open(folder.path / "store").compile({module, {}, {}, ""}); }});
  Program made = Program::compile(moved, untilCuda()), taken = std::move(made);
  for (const Program& program : {Program(), made})
    expectEmpty("Program",
                {[&] { program.text(Stage::cuda); }, [&] { program.cubin(); },
                 [&] { program.launchPlan(); }, [&] { program.ptx(); },
                 [&] { program.usageJson(); }, [&] { program.arch(); }, [&] { program.remarks(); },
                 [&] { program.kernels(); }, [&] { program.launches(); }, [&] { program.inputs(); },
                 [&] { program.outputs(); }, [&] { program.lists(); },
                 [&] { program.runOnHost({}, {}); }, [&] { program.state(); },
                 [&] { Executable executable(program); }, [&] { verify(program); },
                 [&] { predict(program); }});
  EXPECT_EQ(taken.inputs().size(), 1U);
  made = taken; // may be assigned to
  EXPECT_EQ(made.inputs().size(), 1U);
}

TEST(Api, EmptyTunersAndCachesAreRefused) {
  const TuningTask task = {Module::fromOp({"softmax", {8, 64}, DType::f32}), {}, {}, "softmax"};
  const Tuner tuner;
  EXPECT_EQ(tuner.lookup(tuner.name(task)), nullptr); // never throws
  expectEmpty("Tuner", {[&] { tuner.find(task); }, [&] { tuner.warmup({&task, 1}); },
                        [&] { tuner.freeze(); }, [&] { tuner.recordShapes("nowhere"); },
                        [&] { tuner.explain(task); }, [&] { tuner.stats(); }});
  const Cache cache;
  expectEmpty("Cache", {[&] { cache.compile(task); }, [&] { cache.warnings(); }});
}

TEST(Api, ErrorsNameFileLineAndColumn) {
  std::string text = errorOf(ErrorKind::input, [] {
    Module::parse("func.func @f() {\n  %y = kiln.no_such_op\n  return\n}", "bad.mlir");
  });
  EXPECT_HAS(text, "bad.mlir:2:8: error: ");
  text = errorOf(ErrorKind::input, [] {
    Module::parse("func.func @f(%x: tensor<4x8xf32>) {\n"
                  "  %y = kiln.softmax %x : tensor<4x8xf32> -> tensor<4xf32>\n  return\n}",
                  "shape.mlir");
  });
  EXPECT_HAS(text, "shape.mlir:2:8: error: 'kiln.softmax' op output has shape [4]");
  Module power = Module::parse("func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {\n"
                               "  %y = math.powf %x, %x : tensor<4x8xf32>\n"
                               "  return %y : tensor<4x8xf32>\n}",
                               "power.mlir");
  CompileOptions backward = untilCuda();
  backward.backward = true;
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { Program::compile(power, backward); }),
             "power.mlir:2:8: error: 'math.powf' has no gradient");
}

TEST(Api, ErrorsOfOptions) {
  Module module = Module::fromOp({"softmax", {-1, 256}, DType::f32});
  CompileOptions options = untilCuda();
  options.arch = "sm_35";
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { Program::compile(module, options); }), "sm_90a");
  options = untilCuda();
  options.function = "nothing";
  EXPECT_HAS(errorOf(ErrorKind::input, [&] { Program::compile(module, options); }),
             "no function @nothing; the module has @softmax");
  options = untilCuda();
  options.schedule = "#kiln.schedule<lanes = 32, vector = 8, rows = 16, threads = 1024, blocks = "
                     "1, grid = one_shot, keep = shared, launch = programmatic>";
  EXPECT_HAS(errorOf(ErrorKind::infeasible, [&] { Program::compile(module, options); }),
             "bytes of shared memory asked, sm_90a allows 232448 a block");
  EXPECT_HAS(errorOf(ErrorKind::input, [] { Module::fromOp({"conv", {4, 8}, DType::f32}); }),
             "no op 'conv' to build from a shape; known are attention, cross_entropy, geglu, gelu, "
             "layer_norm, "
             "log_softmax, rms_norm, sigmoid, silu, softmax, swiglu;");
  EXPECT_HAS(errorOf(ErrorKind::input, [] { Module::fromOp({"softmax", {}, DType::f32}); }),
             "has no shape");
  EXPECT_HAS(errorOf(ErrorKind::input, [] { Module::fromOp({"softmax", {4, -1}, DType::f32}); }),
             "with shape 4x?: the last size, the row width, must be a constant of at least 1");
  EXPECT_HAS(errorOf(ErrorKind::input, [] { Module::fromOp({"softmax", {4, 8}, DType::i32}); }),
             "f32, bf16 and f16 are allowed");
}

TEST(Api, OpsFromAShapeCompileInBothDirections) {
  for (const char* op : {"attention", "cross_entropy", "geglu", "gelu", "layer_norm", "log_softmax",
                         "rms_norm", "sigmoid", "silu", "softmax", "swiglu"}) {
    Module module = Module::fromOp({op, {4, -1, 96}, DType::bf16});
    EXPECT_EQ(module.functions(), std::vector<std::string>{op});
    for (bool backward : {false, true}) {
      CompileOptions options = untilCuda();
      options.backward = backward;
      EXPECT_HAS(Program::compile(module, options).text(Stage::cuda), "KILN_KERNEL");
    }
  }
}

Module attention(std::vector<std::pair<std::string, std::string>> settings,
                 std::vector<std::int64_t> shape = {2, 4, 8, 16}) {
  return Module::fromOp({"attention", std::move(shape), DType::bf16, std::move(settings)});
}

TEST(Api, SettingsOfAnOpAreInItsText) {
  const std::string text = attention({{"causal", "last"},
                                      {"key_heads", "2"},
                                      {"keys", "?"},
                                      {"value_width", "24"},
                                      {"bias", "shared"},
                                      {"mask", "keys"},
                                      {"softcap", "30"},
                                      {"window_left", "5"},
                                      {"dropout", "0.1"}})
                               .text();
  for (const char* part :
       {"%q: tensor<2x4x8x16xbf16>, %k: tensor<2x2x?x16xbf16>, %v: tensor<2x2x?x24xbf16>",
        "%b: tensor<1x4x8x?xbf16>, %m: tensor<2x1x1x?xi1>, %seed: tensor<i64>",
        "-> (tensor<2x4x8x24xbf16>, tensor<2x4x8xf32> {kiln.gradient = false})",
        "bias %b mask %m dropout %seed, %offset p 1.0", "scale = 2.500000000e-01 : f32",
        "causal = #kiln.causal<last>", "window_left = 5"})
    EXPECT_HAS(text, part);
  EXPECT_HAS(attention({{"sequences", "3"}}, {4, -1, 16}).text(),
             "starts %query_starts, %key_starts");
}

TEST(Api, OpsAreOpenedForAnySizes) {
  const OpenedOp rows = Module::opened({"softmax", {8, 4, 64}, DType::f32});
  EXPECT_EQ(rows.spec.shape, (std::vector<std::int64_t>{-1, -1, 64}));
  EXPECT_EQ(rows.sizes, (std::vector<std::int64_t>{8, 4}));
  const OpenedOp heads =
      Module::opened({"attention", {8, 16, 300, 64}, DType::bf16, {{"keys", "77"}}});
  EXPECT_EQ(heads.spec.shape, (std::vector<std::int64_t>{-1, 16, -1, 64}));
  EXPECT_EQ(heads.sizes, (std::vector<std::int64_t>{8, 300, 77}));
  const Program program = Program::compile(Module::fromOp(heads.spec), untilCuda());
  EXPECT_EQ(program.inputs()[0].shape[2].symbol, 1);
  EXPECT_EQ(program.inputs()[1].shape[2].symbol, 2);
}

TEST(Api, SettingsThatMeanNothingAreRefused) {
  const auto refused = [](std::vector<std::pair<std::string, std::string>> settings,
                          std::vector<std::int64_t> shape = {2, 4, 8, 16}) {
    return errorOf(ErrorKind::input, [&] { attention(settings, shape); });
  };
  EXPECT_HAS(refused({{"casual", "last"}}),
             "op 'attention' has no setting 'casual'; it has causal, window_left");
  EXPECT_HAS(refused({{"casual", "last"}}), "did you mean 'causal'?");
  EXPECT_HAS(refused({{"causal", "yes"}}),
             "with causal=yes: allowed is first or last, the rows that are aligned");
  EXPECT_HAS(refused({{"keys", "-3"}}), "with keys=-3: allowed is a number of rows, or ?");
  EXPECT_HAS(refused({{"dropout", "much"}}), "with dropout=much: allowed is a probability");
  EXPECT_HAS(refused({{"dropout", "1.5"}}), "p = 1.5");
  EXPECT_HAS(refused({{"key_heads", "3"}}), "heads of query, key and value are [4, 3, 3]");
  EXPECT_HAS(refused({{"causal", "last"}, {"causal", "first"}}), "is given 'causal' twice");
  EXPECT_HAS(refused({}, {8, 16}), "with shape '8x16': give heads x queries x width");
  EXPECT_HAS(refused({{"sequences", "3"}}), "packed sequences in a query of rank 4");
  EXPECT_HAS(errorOf(ErrorKind::input,
                     [] { Module::fromOp({"softmax", {4, 8}, DType::f32, {{"causal", "last"}}}); }),
             "op 'softmax' has no settings, so that 'causal=last' means nothing");
  for (const OpSetting& setting : Module::settings())
    EXPECT_EQ(setting.op, "attention");
}

TEST(Api, RemarksTellWhatWasNotFused) {
  Module module =
      Module::parse("func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {\n"
                    "  %s = kiln.reduce sum %x dims [0] : tensor<?x8xf32> -> tensor<8xf32>\n"
                    "  %b = kiln.broadcast %s dims [1] like %x : tensor<8xf32>, tensor<?x8xf32> -> "
                    "tensor<?x8xf32>\n"
                    "  %y = arith.subf %x, %b : tensor<?x8xf32>\n  return %y : tensor<?x8xf32>\n}",
                    "centre.mlir");
  Program program = Program::compile(module, untilCuda());
  ASSERT_EQ(program.remarks().size(), 1u);
  EXPECT_HAS(program.remarks()[0], "centre.mlir:4:8: remark: not fused: the sum over leading");
  EXPECT_HAS(program.remarks()[0], "centre.mlir:2:8: note: with this operation");
  EXPECT_TRUE(
      Program::compile(Module::fromOp({"softmax", {-1, 8}}), untilCuda()).remarks().empty());
}

/// Names that C++, the skeleton or the device library use are no names for variables.
TEST(Api, AnyNameCompiles) {
  Program program = Program::compile(
      Module::parse("func.func @load(%float: tensor<?x8xf32>, %c: tensor<8xf32>, %Tile: "
                    "tensor<?xf32>) -> (tensor<?x8xf32> {kiln.name = \"r\"}) {\n"
                    "  %a = kiln.broadcast %c dims [1] like %float : tensor<8xf32>, "
                    "tensor<?x8xf32> -> tensor<?x8xf32>\n"
                    "  %b = kiln.broadcast %Tile dims [0] like %float : tensor<?xf32>, "
                    "tensor<?x8xf32> -> tensor<?x8xf32>\n"
                    "  %d = arith.addf %float, %a : tensor<?x8xf32>\n"
                    "  %e = arith.addf %d, %b : tensor<?x8xf32>\n"
                    "  return %e : tensor<?x8xf32>\n}"),
      untilCuda());
  const std::string& text = program.text(Stage::cuda);
  EXPECT_HAS(text, "kiln_load(const float* float_1, const float* c_1, const float* Tile_1, "
                   "float* r_1");
}

TEST(Api, ManyThreadsGetTheSameTexts) {
  std::vector<std::string> sources{layerNormText(128, "bf16"), gateText(64, "f32"),
                                   softmaxText(256, "bf16", true, true),
                                   reduceText(96, "f32", true)};
  std::vector<std::string> alone;
  for (const std::string& source : sources)
    alone.push_back(Program::compile(Module::parse(source), untilCuda()).text(Stage::cuda));
  std::vector<std::string> together(32);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t i = t; i < together.size(); i += 8)
        together[i] = Program::compile(Module::parse(sources[i % sources.size()]), untilCuda())
                          .text(Stage::cuda);
    });
  for (std::thread& thread : threads)
    thread.join();
  for (std::size_t i = 0; i < together.size(); ++i)
    EXPECT_EQ(together[i], alone[i % alone.size()]);
}

} // namespace
