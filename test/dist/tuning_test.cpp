// Choices of kernels: compared and frozen on all ranks, and tuned by all of them from one list.
#include "test/dist/Ranks.h"

#include "kiln/dist/tuning.h"
#include "kiln/torch.h"

#include <filesystem>
#include <fmt/format.h>

namespace kiln::dist {

namespace {

/// Of all ranks, for a test.
class SharedFolder {
 public:
  SharedFolder() {
    std::string mine = (std::filesystem::temp_directory_path() / "kiln_ranks_XXXXXX").string();
    if (ranks()->rank() == 0 && !::mkdtemp(mine.data()))
      throw std::runtime_error("no folder for a test");
    path = ranks()->gather(mine)[0];
  }
  ~SharedFolder() {
    ranks()->barrier();
    if (ranks()->rank() == 0)
      std::filesystem::remove_all(path);
  }
  std::filesystem::path path;
};

std::vector<TuneTask> tasks(int count) {
  std::vector<TuneTask> all;
  for (int i = 0; i < count; ++i) {
    const std::int64_t width = 64 << i;
    TuneTask task;
    task.module = Module::fromOp({"softmax", {4096, width}, DType::bf16});
    task.label = fmt::format("softmax 4096x{} bf16", width);
    all.push_back(std::move(task));
  }
  return all;
}

TuneOptions simulated() {
  TuneOptions options;
  options.effort = "quick";
  options.device = "simulated";
  options.worker = {KILN_COMPILE_COMMAND, "worker"};
  options.jobs = 1;
  return options;
}

/// What freezeChoices() says is wrong.
std::string refusal() {
  try {
    freezeChoices(*ranks());
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST(Tuning, RanksTuneOneListOnce) {
  const SharedFolder folder;
  const auto list = tasks(5);
  const auto results = tune(*ranks(), list, folder.path / "tuned.db", simulated());
  double mine = 0;
  std::string chosen;
  for (const TuneResult& result : results) {
    mine += result.known ? 0 : 1;
    chosen += fmt::format("{} {} {}\n", result.label, result.source, result.schedule);
    EXPECT_FALSE(result.source.empty()) << result.label << ": " << result.reason;
  }
  EXPECT_EQ(ranks()->sum(mine), 5) << "each by one of the ranks";
  for (const std::string& other : ranks()->gather(chosen))
    EXPECT_EQ(other, chosen);
  for (const TuneResult& result : tune(*ranks(), list, folder.path / "tuned.db", simulated()))
    EXPECT_TRUE(result.known);
}

TEST(Tuning, RanksWhoseChoicesDifferAreNamed) {
  const SharedFolder folder;
  const int last = ranks()->size() - 1;
  tune(*ranks(), tasks(1), folder.path / "one.db", simulated());
  tune(*ranks(), tasks(2), folder.path / "two.db", simulated());
  const auto choose = [&](const char* store, kiln::Mode mode = kiln::Mode::use) {
    kiln::Options options;
    options.mode = mode;
    options.cache = folder.path / store;
    options.place = kiln::Place::cpu;
    enable(options);
  };
  choose("one.db");
  EXPECT_EQ(refusal(), "");
  choose(last > 0 && ranks()->rank() == last ? "two.db" : "one.db");
  const std::string said = refusal();
  if (last > 0) {
    EXPECT_TRUE(has(said, fmt::format("rank {} of {}; rank {} has '2 tuned choices", last, last + 1,
                                      last)) &&
                has(said, "rank 0 has '1 tuned choices"))
        << said;
  }
  choose("one.db", ranks()->rank() == last ? kiln::Mode::verify : kiln::Mode::use);
  EXPECT_EQ(has(refusal(), fmt::format("rank {} has 'mode verify, ops all'", last)), last > 0);
  choose("one.db", ranks()->rank() == last ? kiln::Mode::tune : kiln::Mode::use);
  EXPECT_TRUE(has(refusal(), fmt::format("rank {} of {}: choices cannot be frozen in mode 'tune'",
                                         last, last + 1)));
  disable();
}

} // namespace kiln::dist
