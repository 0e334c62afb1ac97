// Stacks that run functions by turns with their caller: the threads of a block on the host.
// A fiber is used again and again, also by later kernels; AddressSanitizer is told about every
// switch. Fibers do not move between operating system threads while their function is running.
#pragma once

#include <boost/context/fiber.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace kiln {

class Fiber {
 public:
  explicit Fiber(std::size_t stackBytes);
  ~Fiber(); // the function must have returned
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Sets what runs at the next resume(); it must not throw. Only while nothing is running.
  void start(std::function<void()> function);
  bool running() const { return busy; }

  /// For the caller: runs the function until it suspends itself or returns.
  void resume();
  /// For the function: back to the caller; returns at the next resume().
  void suspend();

 private:
  using Context = boost::context::fiber;

  Context loop(Context&& caller);

  std::function<void()> work;
  bool busy = false;
  bool ending = false;
  void* insideFake = nullptr; // AddressSanitizer's notes about the two stacks
  void* outsideFake = nullptr;
  const void* insideBottom = nullptr;
  std::size_t insideBytes = 0;
  const void* outsideBottom = nullptr;
  std::size_t outsideBytes = 0;
  Context inside, outside; // last: making `inside` fills in where its stack lies
};

/// Fibers on loan from a pool of the process: making one costs several system calls.
class FiberLoan {
 public:
  explicit FiberLoan(int count);
  ~FiberLoan(); // no function may be running
  FiberLoan(const FiberLoan&) = delete;
  FiberLoan& operator=(const FiberLoan&) = delete;

  Fiber& operator[](int index) { return *fibers[index]; }

 private:
  std::vector<std::unique_ptr<Fiber>> fibers;
};

} // namespace kiln
