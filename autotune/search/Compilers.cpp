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

void Compilers::begin(const Task& task) {
  std::lock_guard lock(mutex);
  current = next && next->task == task ? next : std::make_shared<Work>(task);
  next.reset();
}

bool Compilers::add(Work& to, const Proposal& proposal) {
  if (!to.entries.try_emplace(proposal.schedule).second)
    return false;
  to.queue.push_back(proposal);
  return true;
}

void Compilers::want(const Proposal& proposal) {
  std::lock_guard lock(mutex);
  if (add(*current, proposal))
    wanted.notify_one();
}

void Compilers::wantAhead(const Task& task, std::span<const Proposal> proposals) {
  std::lock_guard lock(mutex);
  next = std::make_shared<Work>(task);
  for (const Proposal& proposal : proposals)
    add(*next, proposal);
  wanted.notify_all();
}

Compiled Compilers::take(const Proposal& proposal) {
  std::unique_lock lock(mutex);
  Work& now = *current;
  auto [entry, isNew] = now.entries.try_emplace(proposal.schedule);
  if (isNew) {
    now.queue.push_front(proposal);
    wanted.notify_one();
  }
  done.wait(lock, [&] { return entry->second.compiled || entry->second.error; });
  Entry taken = std::move(entry->second);
  now.entries.erase(entry);
  if (taken.error)
    std::rethrow_exception(taken.error);
  return std::move(*taken.compiled);
}

void Compilers::work(const std::stop_token& stop) {
  std::unique_ptr<Device> device;
  std::shared_ptr<Work> knows; // the work whose task the device was told
  std::unique_lock lock(mutex);
  auto hasWork = [](const std::shared_ptr<Work>& work) { return work && !work->queue.empty(); };
  while (wanted.wait(lock, stop, [&] { return hasWork(current) || hasWork(next); })) {
    const std::shared_ptr<Work> mine = hasWork(current) ? current : next;
    Proposal proposal = std::move(mine->queue.front());
    mine->queue.pop_front();
    Entry result;
    lock.unlock();
    try {
      if (!device)
        device = make();
      if (mine != knows)
        device->begin(mine->task);
      knows = mine;
      result.compiled = device->compile(proposal);
    } catch (const Lost& lost) {
      result.compiled = Rejection{proposal.schedule, "compile", lost.what()};
    } catch (...) {
      result.error = std::current_exception();
    }
    lock.lock();
    mine->entries[proposal.schedule] = std::move(result);
    done.notify_all();
  }
}

} // namespace kiln::autotune
