// See kiln/dist/tuning.h.
#include "kiln/dist/tuning.h"

#include "kiln/torch.h"
#include "runtime/dist/Agree.h"
#include "runtime/dist/Fail.h"

#include <fmt/ranges.h>

namespace kiln::dist {

namespace {

/// The first line of `other` that `first` does not have there, and what that has.
std::pair<std::string, std::string> difference(const std::string& first, const std::string& other) {
  const auto expected = linesOf(first), found = linesOf(other);
  for (std::size_t i = 0; i < found.size() && i < expected.size(); ++i)
    if (expected[i] != found[i])
      return {expected[i], found[i]};
  return {first, other};
}

/// What a rank cannot freeze, all are told of.
std::vector<std::string> frozen(Group& group) {
  std::string mine, why;
  try {
    mine = freeze();
  } catch (const Error& error) {
    why = error.what();
  }
  const auto all = group.gather(mine), reasons = group.gather(why);
  for (std::size_t rank = 0; rank < reasons.size(); ++rank)
    if (!reasons[rank].empty())
      fail(ErrorKind::input, "rank {} of {}: {}", rank, group.size(), reasons[rank]);
  return all;
}

} // namespace

void freezeChoices(Group& group) {
  const auto all = frozen(group);
  std::vector<std::string> differ;
  std::pair<std::string, std::string> example;
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0]) {
      if (differ.empty())
        example = difference(all[0], all[rank]);
      differ.push_back(std::to_string(rank));
    }
  if (!differ.empty())
    fail(ErrorKind::input,
         "ranks would run other kernels than rank 0: rank {} of {}; rank {} has '{}', rank 0 has "
         "'{}'. Give all of them the same stores, such as one file by KILN_PINNED, KILN_STORE or "
         "KILN_CACHE, and the same version and options",
         fmt::join(differ, ", "), group.size(), differ[0], example.second, example.first);
}

std::vector<TuneResult> tune(Group& group, std::span<const TuneTask> tasks,
                             const std::filesystem::path& store, TuneOptions options) {
  if (options.device == "gpu")
    options.device =
        group.device().is_cuda() ? fmt::format("gpu:{}", group.device().index()) : options.device;
  auto results = kiln::tune(tasks, store, options);
  group.barrier();
  return results;
}

} // namespace kiln::dist
