// What tests of kiln::Tuner share: a folder with stores, tasks, tuners over them whose words are
// written down, and the stand-in driver in the place of the machine's.
#pragma once

#include "kiln/tuner.h"
#include "test/backend/Helpers.h"
#include "test/backend/LoadFakeDriver.h"

#include <chrono>
#include <mutex>
#include <thread>

namespace kiln::test {

class TunerTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("KILN_FIRST_CHECK", "0", 1); // kernels of the stand-in driver compute nothing
    for (const Finding& finding : doctor())
      if (finding.name == "NVRTC" && finding.state != Finding::State::found)
        GTEST_SKIP() << "no NVRTC: " << finding.detail;
  }
  static TuningTask softmax(std::int64_t rows, std::int64_t width = 128) {
    return {Module::fromOp({"softmax", {rows, width}, DType::bf16}),
            {},
            {},
            "softmax " + std::to_string(rows) + "x" + std::to_string(width) + " bf16"};
  }
  std::filesystem::path path(const char* name) const { return folder.path / name; }
  void fill(const char* name, std::initializer_list<TuningTask> tasks) const {
    Cache cache = Cache::open(path(name));
    for (const TuningTask& task : tasks)
      cache.compile(task);
    EXPECT_TRUE(cache.warnings().empty());
  }
  /// Callbacks may come from the tuner's thread.
  TunerOptions optionsOver(const char* user) {
    TunerOptions options;
    options.layers = {};
    options.layers.user = path(user);
    options.onWarning = [this](const std::string& text) {
      std::lock_guard held(mutex);
      warnings.push_back(text);
    };
    options.onProgress = [this](const TunerProgress& p) {
      std::lock_guard held(mutex);
      progress.push_back(p);
    };
    return options;
  }
  Tuner open(const char* user, bool strict = false) {
    TunerOptions options = optionsOver(user);
    options.strict = strict;
    return Tuner::open(options);
  }

  FakeDriver& driver = fakeDriver(); // first of all, so that nobody finds another
  TemporaryFolder folder;
  std::mutex mutex; // of what the callbacks write
  std::vector<std::string> warnings;
  std::vector<TunerProgress> progress;
};

/// Of tuners that make what no store has.
class TunerModes : public TunerTest {
 protected:
  using Mode = TunerOptions::Mode;

  TunerOptions optionsAs(Mode mode) {
    TunerOptions options = optionsOver("store");
    options.mode = mode;
    return options;
  }
  Tuner openAs(Mode mode, double budget = 0) {
    TunerOptions options = optionsAs(mode);
    options.budget = budget;
    return Tuner::open(options);
  }
  /// Waits for the thread of a tuner.
  template <class Condition> static bool comesTrue(Condition condition) {
    for (int tries = 0; tries < 1200; ++tries) {
      if (condition())
        return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }
};

} // namespace kiln::test
