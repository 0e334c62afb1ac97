// What goes wrong around routed ops: stores that are gone, broken or another GPU's, and memory that
// runs out in the middle of a step. A clear message or ATen's own numbers, and the next step is
// right.
#include "kiln/cache.h"
#include "kiln/fuse.h"
#include "test/backend/Helpers.h"
#include "test/torch/Helpers.h"

#include <c10/core/CPUAllocator.h>
#include <torch/torch.h>

#include <fstream>

namespace kiln::test {
namespace {

using at::Tensor;

Options strictWith(const std::filesystem::path& store) {
  Options options = strictOnCpu();
  options.cache = store;
  return options;
}

/// Whether Kiln computes an op at a new width, as ATen does.
void expectRight(std::int64_t width) {
  const Tensor x = at::randn({5, width});
  const auto before = callsByKiln("silu");
  const Tensor ours = at::silu(x);
  EXPECT_EQ(callsByKiln("silu"), before + 1) << report();
  const Guard off(Mode::off);
  expectClose(ours, at::silu(x), "silu");
}

TEST(TorchFailures, AStoreThatIsDeletedWhileInUseIsMissedByNobody) {
  TemporaryFolder folder;
  enable(strictWith(folder.path / "store.db"));
  expectRight(72);
  std::filesystem::remove_all(folder.path);
  expectRight(76);
  std::filesystem::create_directory(folder.path);
  enable(strictWith(folder.path / "store.db")); // made anew
  EXPECT_TRUE(std::filesystem::exists(folder.path / "store.db"));
  expectRight(80);
}

TEST(TorchFailures, AFileOfOthersIsNoStore) {
  TemporaryFolder folder;
  Options options = strictWith(folder.path / "notes.txt");
  std::ofstream(options.cache) << "my notes";
  try {
    enable(options);
    FAIL() << "a text was taken for a store";
  } catch (const Error& error) {
    EXPECT_HAS(std::string(error.what()), "notes.txt' is a file of another program");
  }
  std::stringstream notes;
  notes << std::ifstream(options.cache).rdbuf();
  EXPECT_EQ(notes.str(), "my notes");
}

TEST(TorchFailures, ABrokenStoreIsPutAsideAndSaidSo) {
  TemporaryFolder folder;
  Options options = strictWith(folder.path / "store.db");
  options.log = folder.path / "log";
  {
    Cache::open(options.cache);
  }
  std::filesystem::resize_file(options.cache, 5000);
  enable(options);
  expectRight(84);
  enable(strictOnCpu()); // ends the log
  std::stringstream log;
  log << std::ifstream(options.log).rdbuf();
  EXPECT_HAS(log.str(), "store.db");
}

/// A compiler that takes exponentials for something else, as long as it is there.
struct WrongCompiler {
  WrongCompiler() {
    const auto script = folder.path / "c++";
    std::ofstream(script) << "#!/bin/sh\nfor f in \"$@\"; do case $f in *.cu) "
                             "sed -i 's/expf(/0.25f + expf(/g' $f;; esac; done\nexec c++ \"$@\"\n";
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    ::setenv("KILN_HOST_CXX", script.c_str(), 1);
  }
  ~WrongCompiler() { ::unsetenv("KILN_HOST_CXX"); }
  TemporaryFolder folder;
};

TEST(TorchFailures, AWrongKernelIsLaunchedForNobody) {
  const WrongCompiler wrong;
  enable(onCpu());
  const Tensor x = at::randn({5, 92});
  const auto before = callsByKiln("_softmax");
  static_cast<void>(at::softmax(x, 1));
  wait();
  const Tensor ours = at::softmax(x, 1);
  EXPECT_EQ(callsByKiln("_softmax"), before);
  EXPECT_TRUE(
      reports("the kernel that the cost model chose is wrong and is not used: compared with "
              "fp64 at size"))
      << report();
  enable(strictOnCpu());
  EXPECT_THROW(at::softmax(x, 1), Error); // strict mode falls back to nothing
  const Guard off(Mode::off);
  EXPECT_TRUE(at::equal(ours, at::softmax(x, 1)));
}

TEST(TorchFailures, AWrongFusedKernelIsLaunchedForNobody) {
  const WrongCompiler wrong;
  enable(onCpu());
  const auto f = fuse([](Expr a) { return exp(a) * 2; }, {.place = Place::cpu});
  const Tensor x = at::randn({5, 96});
  const std::string error = errorOf(ErrorKind::infeasible, [&] { f(x); });
  EXPECT_HAS(error, "fused 5x96 f32: no kernel: the kernel that the cost model chose is wrong");
  EXPECT_TRUE(reports("is wrong and is not used")) << report();
}

TEST(TorchFailures, AStoreOfAnotherGpuIsNoneForThisOne) {
  if (!hasCompiler())
    GTEST_SKIP() << "no NVRTC, so that nothing can be stored";
  TemporaryFolder folder;
  TuningTask task{Module::fromOp({"silu", {-1, 88}, DType::f32}), {}, {5}, "silu"};
  for (const char* arch : {"sm_80", "sm_120"}) {
    task.options.arch = arch;
    Cache::open(folder.path / "store.db").compile(task);
  }
  enable(strictWith(folder.path / "store.db"));
  expectRight(88);
  EXPECT_TRUE(reports("5x88 f32                        1          1  the cost model's choice;"))
      << report();
}

TEST(TorchFailures, WithoutAGpuTensorsOfTheCpuAreATens) {
  if (at::hasCUDA())
    GTEST_SKIP() << "there is a GPU";
  enable(Options());
  const Tensor x = at::randn({5, 92});
  const auto before = callsByKiln("silu");
  expectClose(at::silu(x), x * at::sigmoid(x), "silu");
  EXPECT_EQ(callsByKiln("silu"), before);
  EXPECT_TRUE(reports("nothing is taken on a GPU: ")) << report();
}

/// The CPU's allocator until it has given `left` times; then there is no memory.
struct Failing : c10::Allocator {
  explicit Failing(int left) : left(left), below(c10::GetCPUAllocator()) {
    c10::SetCPUAllocator(this, /*priority=*/1);
  }
  ~Failing() override { c10::SetCPUAllocator(below, 1); }
  c10::DataPtr allocate(std::size_t bytes) override {
    TORCH_CHECK_WITH(OutOfMemoryError, left-- > 0, "no memory for ", bytes, " bytes");
    return below->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return below->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    below->copy_data(to, from, count);
  }
  std::atomic<int> left;
  c10::Allocator* below;
};

TEST(TorchFailures, MemoryThatRunsOutInTheMiddleOfAStepLeavesTheNextOneRight) {
  torch::manual_seed(1);
  const Tensor x = at::randn({70, 1000}), w = at::randn({1000}).requires_grad_(),
               t = at::randint(1000, {70});
  const auto step = [&] {
    w.mutable_grad() = Tensor();
    const Tensor y = at::layer_norm(at::gelu(at::rms_norm(x, {1000}, w)), {1000}, w, w);
    const Tensor loss = at::cross_entropy_loss(at::log_softmax(at::silu(y), 1), t);
    loss.backward();
    return std::pair(loss.detach(), w.grad());
  };
  enable(strictOnCpu());
  const auto [loss, slope] = step();
  int failures = 0;
  for (bool whole = false; !whole; failures += 3) {
    whole = [&] {
      const Failing allocator(failures);
      try {
        step();
        return true;
      } catch (const c10::OutOfMemoryError& error) {
        EXPECT_HAS(std::string(error.what_without_backtrace()), "no memory for");
        return false;
      }
    }();
    const auto [again, slopeAgain] = step();
    ASSERT_TRUE(at::equal(again, loss)) << failures;
    ASSERT_TRUE(at::equal(slopeAgain, slope)) << failures;
  }
  EXPECT_GT(failures, 10); // a third of the step's allocations
}

} // namespace
} // namespace kiln::test
