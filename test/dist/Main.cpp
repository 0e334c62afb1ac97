// ranks_tests --nproc=N: starts itself N times, and each runs the tests.
#include "test/dist/Ranks.h"

#include <ATen/Parallel.h>
#include <string_view>

namespace kiln::dist {

std::shared_ptr<Group> ranks() {
  static const std::shared_ptr<Group> group =
      Group::start(Place::fromEnvironment(), {.limit = std::chrono::seconds(20)});
  return group;
}

} // namespace kiln::dist

int main(int argc, char** argv) {
  const std::vector<char*> given(argv, argv + argc); // GoogleTest takes its own out
  testing::InitGoogleTest(&argc, argv);
  int count = 1;
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]).starts_with("--nproc="))
      count = std::stoi(argv[i] + 8);
  const auto place = kiln::dist::Place::fromEnvironment();
  if (place.launcher.empty() && count > 1)
    return kiln::dist::launch(int(given.size()), given.data(), {.ranks = count});
  if (place.rank > 0) { // one report
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    struct Failures : testing::EmptyTestEventListener {
      void OnTestPartResult(const testing::TestPartResult& result) override {
        if (result.failed())
          std::fprintf(stderr, "%s:%d: %s\n", result.file_name() ? result.file_name() : "?",
                       result.line_number(), result.message());
      }
    };
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new Failures);
  }
  at::set_num_threads(1);
  return RUN_ALL_TESTS();
}
