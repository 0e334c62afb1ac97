// See Alarm.h.
#include "runtime/dist/Alarm.h"
#include "runtime/dist/Fail.h"

#include <fmt/ranges.h>

namespace kiln::dist {

namespace {

const std::string kRaised = "alarm";
std::string answerOf(int rank) {
  return fmt::format("alarm/{}", rank);
}

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

/// Ranks that wait look for the alarm once a second.
std::string Alarm::answers() try {
  store->add(kRaised, 1);
  store->add(answerOf(place.rank), 1);
  std::vector<int> silent;
  for (int i = 0; i < 30; ++i) {
    silent.clear();
    for (int rank = 0; rank < place.size; ++rank)
      if (!store->check({answerOf(rank)}))
        silent.push_back(rank);
    if (silent.empty())
      return "; all ranks answer";
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return fmt::format("; no answer from rank {}: ended, hung, or busy with something else",
                     fmt::join(silent, ", "));
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
  try {
    store->add(kRaised, 1);
  } catch (const std::exception&) { // then the others know
  }
}

void Alarm::fail(const Operation& operation, const std::string& why) {
  throw Error(ErrorKind::unavailable, raise(operation, why));
}

void Alarm::check() const {
  if (raised)
    throw Error(ErrorKind::unavailable, message);
}

} // namespace kiln::dist
