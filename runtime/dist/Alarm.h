// What ranks tell each other when something has gone wrong: by the store, since tensors go no
// further then.
#pragma once

#include "runtime/dist/Backends.h"
#include "runtime/dist/Watch.h"

#include <atomic>
#include <functional>

namespace kiln::dist {

class Alarm {
 public:
  /// `abort`: ends what waits for peers on the device, which would keep this process from ending.
  Alarm(StorePtr store, const Place& place, std::chrono::milliseconds limit,
        std::function<void()> abort)
      : store(std::move(store)), place(place), limit(limit), abort(std::move(abort)) {}

  /// Whether a rank has raised it. Also true if the store is gone.
  bool isRaised();
  /// The first time: tells the others, waits a moment for who answers, makes the message, and
  /// aborts. From any thread. Returns the message of the first time.
  std::string raise(const Operation& operation, const std::string& why);
  /// Tells the others that this rank ends, waits for nobody, and aborts nothing.
  void leave();
  /// raise() as an Error(unavailable).
  [[noreturn]] void fail(const Operation& operation, const std::string& why);
  /// Throws the message if it was raised here.
  void check() const;

 private:
  std::string answers();

  StorePtr store;
  Place place;
  std::chrono::milliseconds limit;
  std::function<void()> abort;
  std::mutex mutex;
  std::atomic<bool> raised = false;
  std::string message;
};

} // namespace kiln::dist
