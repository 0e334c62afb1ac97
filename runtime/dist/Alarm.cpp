// See Alarm.h.
#include "runtime/dist/Alarm.h"
#include "runtime/dist/Fail.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <ranges>

namespace kiln::dist {

namespace {

const std::string kRaised = "alarm", kAnswers = "answers", kLeft = "left";

constexpr std::chrono::milliseconds kPause{100};
constexpr int kPauses = 30; // ranks that wait look for the alarm once a second

/// The first line, without what c10d adds of its own source.
std::string firstLine(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  const auto mark = line.find("] ");
  return line.starts_with('[') && mark != std::string::npos ? line.substr(mark + 2) : line;
}

} // namespace

bool Alarm::isRaised() {
  try {
    return store->check({kRaised});
  } catch (const std::exception&) {
    return true;
  }
}

bool Alarm::hasSaid(const std::string& word, int rank) {
  return store->check({fmt::format("alarm/{}/{}", word, rank)});
}

void Alarm::say(const std::string& word) {
  store->add(fmt::format("alarm/{}/{}", word, place.rank), 1);
}

std::string Alarm::answers() try {
  store->add(kRaised, 1);
  say(kAnswers);
  std::vector<int> silent, gone;
  for (int i = 0; i < kPauses; ++i) {
    silent.clear();
    gone.clear();
    for (int rank = 0; rank < place.size; ++rank)
      if (!hasSaid(kAnswers, rank))
        (hasSaid(kLeft, rank) ? gone : silent).push_back(rank);
    if (silent.empty())
      break;
    std::this_thread::sleep_for(kPause);
  }
  std::string text;
  if (!silent.empty())
    text += fmt::format("; no answer from rank {}: ended, hung, or busy with something else",
                        fmt::join(silent, ", "));
  if (!gone.empty()) {
    text += fmt::format("; rank {} ended with an error of its own", fmt::join(gone, ", "));
    std::this_thread::sleep_for(10 * kPause); // whose word comes first, to a launcher too
  }
  return text.empty() ? "; all ranks answer" : text;
} catch (const std::exception&) {
  return "; no answer from rank 0, which holds the store: it has ended";
}

std::string Alarm::raise(const Operation& operation, const std::string& why) {
  const std::lock_guard lock(mutex);
  if (raised)
    return message;
  message = fmt::format("rank {} of {}: {} of {} bytes at step {} failed (time limit {} s): {}",
                        place.rank, place.size, operation.name, operation.bytes, operation.step,
                        double(limit.count()) / 1e3, firstLine(why)) +
            answers();
  raised = true;
  abort();
  return message;
}

void Alarm::leave() {
  if (raised || left.exchange(true))
    return;
  try {
    store->add(kRaised, 1);
    say(kLeft);
    if (place.rank == 0)
      waitForOthers();
  } catch (const std::exception&) { // then the others know
  }
}

/// Until all know, or have had the time to.
void Alarm::waitForOthers() {
  const auto knows = [this](int rank) { return hasSaid(kAnswers, rank) || hasSaid(kLeft, rank); };
  for (int i = 0; i < kPauses && !std::ranges::all_of(std::views::iota(1, place.size), knows); ++i)
    std::this_thread::sleep_for(kPause);
  std::this_thread::sleep_for(2 * kPause); // others look once more
}

void Alarm::fail(const Operation& operation, const std::string& why) {
  throw Error(ErrorKind::unavailable, raise(operation, why));
}

void Alarm::check() const {
  if (raised)
    throw Error(ErrorKind::unavailable, message);
}

} // namespace kiln::dist
