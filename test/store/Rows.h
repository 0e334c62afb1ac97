// Rows that the tests of the store write, and an empty folder for each test.
#pragma once

#include "autotune/store/Sha256.h"
#include "autotune/store/Store.h"
#include "test/Errors.h"

#include <filesystem>
#include <fstream>

namespace kiln::autotune {

using kiln::test::errorOf;

inline Key keyNumber(int number) {
  return {.function = sha256("function " + std::to_string(number)),
          .tensors = "bf16[64x128]/16 -> bf16[64x128]/16",
          .arch = "sm_90a",
          .device = "H200, 132 SMs",
          .nvrtc = "13.0",
          .flags = "-std=c++20",
          .emitter = sha256("emitter"),
          .space = sha256("space")};
}

inline Artifact artifactOf(std::string_view text) {
  auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  Artifact artifact;
  artifact.cubin.assign(bytes.begin(), bytes.end());
  artifact.sha256 = sha256(artifact.cubin);
  artifact.plan = "{}";
  artifact.registers = 32;
  return artifact;
}

inline Verdict verdictOf(const Artifact& artifact, std::string_view schedule, bool pass) {
  return {std::string(schedule), artifact.sha256, pass, "fp64 host", pass ? 0.5 : 2.0, true, 7};
}

inline Measurement measurementOf(std::string_view schedule, std::string_view cubin, double median,
                                 double width = 0.1) {
  Measurement measurement;
  measurement.schedule = schedule;
  measurement.cubin = cubin;
  measurement.median = median;
  measurement.low = median - width / 2;
  measurement.high = median + width / 2;
  measurement.samples = 8;
  measurement.conditions.uuid = "GPU-1";
  measurement.conditions.host = "here";
  return measurement;
}

inline Choice choiceOf(std::string_view schedule, std::string_view cubin, Source source) {
  return {std::string(schedule), std::string(cubin), source, "fastest of 3", 0.03};
}

/// Everything that a tuned key has; the artifact.
inline Artifact tune(Store& store, const Key& key, std::string_view schedule, double median,
                     double width = 0.1) {
  Artifact artifact = artifactOf(std::string("code of ") + std::string(schedule));
  store.keep(key, schedule, artifact);
  store.judge(key, verdictOf(artifact, schedule, true));
  store.measure(key, measurementOf(schedule, artifact.sha256, median, width));
  store.choose(key, choiceOf(schedule, artifact.sha256, Source::measured));
  return artifact;
}

/// All choices of a store as text: equal texts are equal choices.
inline std::string choicesOf(const Store& store) {
  std::string all;
  for (const KnownKey& known : store.keys()) {
    Choice choice = *store.choice(known.key);
    all += known.digest + " " + choice.schedule + " " + choice.cubin + " " +
           std::to_string(static_cast<int>(choice.source)) + " " + choice.reason + "\n";
  }
  return all;
}

class InFolder : public testing::Test {
 protected:
  InFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "kiln-store-XXXXXX";
    folder = mkdtemp(pattern.data());
  }
  ~InFolder() override { std::filesystem::remove_all(folder); }

  std::filesystem::path path(const char* name = "store") const { return folder / name; }
  std::unique_ptr<Store> open(const char* name = "store",
                              Store::Access access = Store::Access::write) const {
    return Store::open(path(name), access);
  }

  std::string bytes(const char* name = "store") const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& contents, const char* name = "store") const {
    std::ofstream(path(name), std::ios::binary) << contents;
  }
  /// A store of several pages without journals.
  void fill(int keys = 20) const {
    auto store = open();
    for (int i = 0; i < keys; ++i)
      tune(*store, keyNumber(i), "schedule " + std::to_string(i), 10);
  }

  std::filesystem::path folder;
};

} // namespace kiln::autotune
