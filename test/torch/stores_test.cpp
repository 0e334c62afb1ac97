// Routed ops find what was stored for the ops that Kiln has by name: the functions that routers
// write are the same, letter by letter. The host takes schedules and the vendor's from a store that
// is named, so that this needs no GPU.
#include "kiln/cache.h"
#include "kiln/fuse.h"
#include "test/backend/Helpers.h"
#include "test/torch/Helpers.h"

#include <fstream>
#include <functional>
#include <sqlite3.h>

namespace kiln::test {
namespace {

using at::Tensor;

struct Stored {
  const char* op; // as Kiln names it
  bool backward;
  const char* routed; // as ATen does
  std::function<void(const Tensor& x)> call;
};

TuningTask taskOf(const Stored& one, std::int64_t rows, std::int64_t width, DType dtype) {
  TuningTask task{Module::fromOp({one.op, {-1, width}, dtype}), {}, {rows}, one.op};
  task.options.backward = one.backward;
  return task;
}

Tensor statistic(const Tensor& x) {
  return at::ones({x.size(0), 1});
}
Tensor weight(const Tensor& x) {
  return at::ones({x.size(1)});
}

const Stored all[] = {
    {"layer_norm", false, "native_layer_norm",
     [](const Tensor& x) { at::native_layer_norm(x, {x.size(1)}, weight(x), weight(x), 1e-5); }},
    {"layer_norm", true, "native_layer_norm_backward",
     [](const Tensor& x) {
       at::native_layer_norm_backward(x, x, {x.size(1)}, statistic(x), statistic(x), weight(x),
                                      weight(x), {true, true, true});
     }},
    {"rms_norm", false, "_fused_rms_norm",
     [](const Tensor& x) { at::_fused_rms_norm(x, {x.size(1)}, weight(x), 1e-5); }},
    {"rms_norm", true, "_fused_rms_norm_backward",
     [](const Tensor& x) {
       at::_fused_rms_norm_backward(x, x, {x.size(1)}, statistic(x), weight(x), {true, true});
     }},
    {"softmax", false, "_softmax", [](const Tensor& x) { at::_softmax(x, 1, false); }},
    {"softmax", true, "_softmax_backward_data",
     [](const Tensor& x) { at::_softmax_backward_data(x, x, 1, x.scalar_type()); }},
    {"log_softmax", false, "_log_softmax", [](const Tensor& x) { at::_log_softmax(x, 1, false); }},
    {"log_softmax", true, "_log_softmax_backward_data",
     [](const Tensor& x) { at::_log_softmax_backward_data(x, x, 1, x.scalar_type()); }},
    {"gelu", false, "gelu", [](const Tensor& x) { at::gelu(x); }},
    {"gelu", true, "gelu_backward", [](const Tensor& x) { at::gelu_backward(x, x); }},
    {"silu", false, "silu", [](const Tensor& x) { at::silu(x); }},
    {"silu", true, "silu_backward", [](const Tensor& x) { at::silu_backward(x, x); }},
};

/// The line of the report about an op at a shape.
std::string lineOf(const std::string& routed, const std::string& shape) {
  std::istringstream lines(report());
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(routed + " ") && line.find(" " + shape + " ") != std::string::npos)
      return line;
  return "no line of " + routed + " " + shape + " in\n" + report();
}

class TorchStores : public testing::Test {
 protected:
  void SetUp() override {
    if (!hasCompiler())
      GTEST_SKIP() << "no NVRTC, so that nothing can be stored";
    options.cache = folder.path / "store.db";
  }
  void TearDown() override { disable(); }

  /// All that the store has.
  void leaveToTheVendor() const {
    sqlite3* store = nullptr;
    ASSERT_EQ(sqlite3_open(options.cache.c_str(), &store), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(store,
                           "UPDATE choice SET source = 'vendor', schedule = '', cubin = NULL",
                           nullptr, nullptr, nullptr),
              SQLITE_OK);
    sqlite3_close(store);
  }

  TemporaryFolder folder;
  Options options = strictOnCpu(); // with a store of its own, empty yet
};

TEST_F(TorchStores, RoutedOpsFindWhatWasStoredForOpsByName) {
  const Cache cache = Cache::open(options.cache);
  for (const Stored& one : all)
    cache.compile(taskOf(one, 5, 56, DType::f32));
  cache.compile(taskOf(all[5], 5, 56, DType::bf16)); // where types are widened and narrowed
  cache.compile(taskOf(all[7], 5, 56, DType::bf16));
  enable(options);
  const Tensor x = at::randn({5, 56});
  for (const Stored& one : all) {
    one.call(x);
    EXPECT_HAS(lineOf(one.routed, "5x56 f32"), "model, project store");
  }
  for (const Stored* one : {&all[5], &all[7]}) {
    one->call(x.to(at::kBFloat16));
    EXPECT_HAS(lineOf(one->routed, "5x56 bf16"), "model, project store");
  }
  at::gelu(at::randn({3, 40})); // nobody stored that
  EXPECT_HAS(lineOf("gelu", "3x40 f32"), "the cost model's choice");
}

TEST(TorchWithoutStores, WhatATenDoesAtTheSpeedOfMemoryIsLeftToIt) { // nor NVRTC
  Options options = strictOnCpu();
  options.strict = false;
  enable(options);
  const Tensor x = at::randn({7, 44});
  const auto before = callsByKiln("silu");
  for (int call = 0; call < 2; ++call) {
    at::silu(x);
    wait();
  }
  EXPECT_EQ(callsByKiln("silu"), before);
  EXPECT_HAS(lineOf("silu", "7x44 f32"), "no store has a choice");
  disable();
}

TEST_F(TorchStores, WhatWasMeasuredReadingAheadIsNoGain) {
  for (const Stored* one : {&all[10], &all[11]}) // whose backward's x is known to be older
    Cache::open(options.cache).compile(taskOf(*one, 7, 52, DType::f32));
  options.strict = false;
  enable(options);
  for (const Stored* one : {&all[10], &all[11]}) {
    one->call(at::randn({7, 52}));
    wait();
  }
  EXPECT_HAS(lineOf("silu", "7x52 f32"), "model, project store");
  EXPECT_HAS(lineOf("silu_backward", "7x52 f32"), "reading ahead");
  disable();

  TuningTask waits = taskOf(all[11], 8, 60, DType::f32);
  waits.options.readAhead = false;
  Cache::open(options.cache).compile(waits);
  enable(options);
  all[11].call(at::randn({8, 60}));
  wait();
  EXPECT_HAS(lineOf("silu_backward", "8x60 f32"), "model, project store");
}

TEST_F(TorchStores, WhereTheVendorIsFasterItsKernelRuns) {
  Cache::open(options.cache).compile(taskOf(all[10], 6, 58, DType::f32));
  leaveToTheVendor();
  enable(options);
  const Tensor x = at::randn({6, 58});
  const auto before = callsByKiln("silu");
  for (const std::int64_t rows : {6, 5}) { // from half to twice as many too
    const Tensor ours = at::silu(x.slice(0, 0, rows));
    const Guard off(Mode::off);
    EXPECT_TRUE(at::equal(ours, at::silu(x.slice(0, 0, rows))));
  }
  EXPECT_EQ(callsByKiln("silu"), before);
  EXPECT_HAS(lineOf("silu", "6x58 f32"), "left to ATen: measured to be faster, project store");
}

/// Who scales may be chosen; who draws not: the mask is the one that Kiln's kernel draws elsewhere.
TEST_F(TorchStores, WhereTheVendorIsFasterMasksAreKilns) {
  constexpr const char* dropout =
      "func.func @dropout(%x: tensor<?x1024xf32>, %seed: tensor<i64>, %offset: tensor<i64>)\n"
      "    -> (tensor<?x1024xf32>, tensor<?x1024xi1>) {\n"
      "  %u = kiln.random %seed, %offset like %x : tensor<?x1024xf32> -> tensor<?x1024xi32>\n"
      "  %least = arith.constant dense<-1073741824> : tensor<i32>\n"
      "  %leasts = kiln.broadcast %least dims [] like %u"
      " : tensor<i32>, tensor<?x1024xi32> -> tensor<?x1024xi32>\n"
      "  %mask = arith.cmpi sge, %u, %leasts : tensor<?x1024xi32>\n"
      "  %kept = arith.uitofp %mask : tensor<?x1024xi1> to tensor<?x1024xf32>\n"
      "  %masked = arith.mulf %x, %kept : tensor<?x1024xf32>\n"
      "  %scale = arith.constant dense<1.333333373e+00> : tensor<f32>\n"
      "  %scales = kiln.broadcast %scale dims [] like %masked"
      " : tensor<f32>, tensor<?x1024xf32> -> tensor<?x1024xf32>\n"
      "  %y = arith.mulf %masked, %scales : tensor<?x1024xf32>\n"
      "  return %y, %mask : tensor<?x1024xf32>, tensor<?x1024xi1>\n}\n";
  Cache::open(options.cache).compile({Module::parse(dropout, "dropout"), {}, {12}, "dropout"});
  leaveToTheVendor();
  enable(options);
  const Tensor x = at::randn({12, 1024});
  const auto draw = [](const Tensor& from) {
    at::manual_seed(3);
    return std::get<1>(at::native_dropout(from, 0.25, true));
  };
  const Tensor first = draw(x);
  wait();
  EXPECT_HAS(lineOf("native_dropout", "12x1024 f32"), "left to ATen: measured to be faster");
  EXPECT_TRUE(at::equal(draw(x), first));
  enable(strictOnCpu());
  EXPECT_TRUE(at::equal(draw(x.to(at::kHalf)), first)); // by a kernel: numbers know no dtype
}

TEST_F(TorchStores, ShapesOfARunAreRecorded) {
  enable(options);
  const auto shifted = fuse([](const Expr& x, const Expr& scale) { return x * scale; },
                            {.name = "shifted", .place = Place::cpu});
  const Tensor x = at::randn({6, 5, 24}).requires_grad_();
  shifted(x, at::rand({1, 5, 24})).sum().backward(); // along one of two leading dimensions
  at::softmax(at::randn({7, 36}), -1);
  recordShapes(folder.path / "shapes.txt");
  std::ifstream file(folder.path / "shapes.txt");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_HAS(text, "  6x5  -");
  EXPECT_HAS(text, "forward,function=shifted_backward");
  EXPECT_HAS(text, "  7  -");
  EXPECT_HAS(text, "# _softmax 7x36 f32");
}

/// ATen computes, no kernel is made, and no store needs to be there.
TEST_F(TorchStores, ShapesAreRecordedWhileATenComputes) {
  Options recording = onCpu();
  recording.mode = Mode::record;
  enable(recording);
  const auto shifted = fuse([](const Expr& x, const Expr& scale) { return x * scale; },
                            {.name = "noted", .place = Place::cpu});
  const Tensor x = at::randn({6, 5, 26}).requires_grad_(), scale = at::rand({1, 5, 26});
  const auto before = callsByKiln("_softmax");
  for (int i = 0; i < 2; ++i) {
    const Tensor made = shifted(x, scale);
    EXPECT_TRUE(at::equal(made, x * scale));
    made.sum().backward();
    const Tensor given = at::randn({7, 38});
    const Tensor ours = at::softmax(given, -1);
    const Guard off(Mode::off);
    EXPECT_TRUE(at::equal(ours, at::softmax(given, -1)));
    wait(); // until everything asked for is noted
  }
  EXPECT_EQ(callsByKiln("_softmax"), before);
  EXPECT_HAS(lineOf("_softmax", "7x38 f32"), "only recorded");
  recordShapes(folder.path / "shapes.txt");
  std::ifstream file(folder.path / "shapes.txt");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_HAS(text, "  6x5  -");
  EXPECT_HAS(text, "forward,function=noted_backward");
  EXPECT_HAS(text, "# _softmax 7x38 f32");
}

} // namespace
} // namespace kiln::test
