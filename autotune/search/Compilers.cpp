// See Compilers.h.
#include "autotune/search/Compilers.h"

#include <algorithm>

namespace kiln::autotune {

Compilers::Compilers(DeviceFactory given, unsigned count) : make(std::move(given)) {
  if (count == 0)
    count = std::max(1U, std::thread::hardware_concurrency());
  for (unsigned i = 0; i < count; ++i)
    threads.emplace_back([this](const std::stop_token& stop) { work(stop); });
}

Compilers::~Compilers() {
  for (std::jthread& thread : threads)
    thread.request_stop();
  wanted.notify_all();
  threads.clear(); // joins
}

void Compilers::begin(const Task& next) {
  std::lock_guard lock(mutex);
  task = next;
  ++generation;
  queue.clear();
  entries.clear();
}

void Compilers::want(const Proposal& proposal) {
  std::lock_guard lock(mutex);
  if (!entries.try_emplace(proposal.schedule).second)
    return;
  queue.push_back(proposal);
  wanted.notify_one();
}

Compiled Compilers::take(const Proposal& proposal) {
  std::unique_lock lock(mutex);
  auto [entry, isNew] = entries.try_emplace(proposal.schedule);
  if (isNew) {
    queue.push_front(proposal);
    wanted.notify_one();
  }
  done.wait(lock, [&] { return entry->second.compiled || entry->second.error; });
  Entry taken = std::move(entry->second);
  entries.erase(entry);
  if (taken.error)
    std::rethrow_exception(taken.error);
  return std::move(*taken.compiled);
}

void Compilers::work(const std::stop_token& stop) {
  std::unique_ptr<Device> device;
  std::uint64_t knows = 0; // the task that the device was told
  std::unique_lock lock(mutex);
  while (wanted.wait(lock, stop, [&] { return !queue.empty(); })) {
    Proposal proposal = std::move(queue.front());
    queue.pop_front();
    const std::uint64_t now = generation;
    Task current = now != knows ? task : Task();
    Entry result;
    lock.unlock();
    try {
      if (!device)
        device = make();
      if (now != knows)
        device->begin(current);
      knows = now;
      result.compiled = device->compile(proposal);
    } catch (const Lost& lost) {
      result.compiled = Rejection{proposal.schedule, "compile", lost.what()};
    } catch (...) {
      result.error = std::current_exception();
    }
    lock.lock();
    if (auto entry = entries.find(proposal.schedule); now == generation && entry != entries.end())
      entry->second = std::move(result);
    done.notify_all();
  }
}

} // namespace kiln::autotune
