// See Watch.h.
#include "runtime/dist/Watch.h"

namespace kiln::dist {

Watch::Watch(std::chrono::milliseconds limit, std::function<bool()> look,
             std::function<void(const Operation&, const std::string&)> failed)
    : limit(limit), look(std::move(look)), failed(std::move(failed)), thread([this] { watch(); }) {}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex);
    ends = true;
  }
  change.notify_one();
  thread.join();
}

void Watch::add(c10::intrusive_ptr<c10d::Work> work, const Operation& operation) {
  {
    const std::lock_guard lock(mutex);
    all.push_back({std::move(work), operation, Clock::now()});
  }
  change.notify_one();
}

/// In the order in which they began, which is that in which they end.
bool Watch::isWell(std::unique_lock<std::mutex>& lock) {
  while (!all.empty()) {
    const Watched first = all.front();
    lock.unlock();
    std::string why;
    const bool done = first.work->isCompleted();
    const auto age = Clock::now() - first.since;
    if (const std::exception_ptr error = first.work->exception()) {
      try {
        std::rethrow_exception(error);
      } catch (const std::exception& caught) {
        why = caught.what();
      }
    } else if (!done && age > limit) {
      why = "it has not ended within the time limit";
    } else if (!done && age > std::chrono::seconds(1) && look()) {
      why = "another rank has failed";
    }
    if (!why.empty())
      failed(first.operation, why);
    lock.lock();
    if (!why.empty())
      return false;
    if (!done)
      return true;
    all.pop_front();
  }
  return true;
}

void Watch::watch() {
  std::unique_lock lock(mutex);
  while (!ends) {
    if (all.empty())
      change.wait(lock, [&] { return ends || !all.empty(); });
    if (!isWell(lock))
      return;
    change.wait_for(lock, std::chrono::milliseconds(200), [&] { return ends; });
  }
}

} // namespace kiln::dist
