// Switching and pooling of fibers. Each stack ends in a page that may not be touched, so that a
// kernel with too many local values stops at once instead of destroying its neighbour's.
#include "codegen/host/Fibers.h"

#include <boost/context/protected_fixedsize_stack.hpp>

#include <mutex>
#include <unistd.h>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#define KILN_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KILN_ASAN 1
#endif
#endif

#ifdef KILN_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace kiln {

namespace {

#ifdef KILN_ASAN
constexpr std::size_t stackBytes = 512 * 1024; // red zones make frames several times larger

void beginSwitch(void** fake, const void* bottom, std::size_t bytes) {
  __sanitizer_start_switch_fiber(fake, bottom, bytes);
}
void endSwitch(void* fake, const void** bottom, std::size_t* bytes) {
  __sanitizer_finish_switch_fiber(fake, bottom, bytes);
}
void forgetStack(const void* bottom, std::size_t bytes) {
  __asan_unpoison_memory_region(bottom, bytes);
}
#else
constexpr std::size_t stackBytes = 64 * 1024;

void beginSwitch(void**, const void*, std::size_t) {}
void endSwitch(void*, const void**, std::size_t*) {}
void forgetStack(const void*, std::size_t) {}
#endif

/// In place of Boost's stack_traits: those lie in its archive, and reach libstdc++'s thread-local
/// variables in a way that dlopen(), by which Python loads libkiln, refuses.
struct PageSize {
  static std::size_t page_size() { // NOLINT(readability-identifier-naming): Boost's name
    return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  }
};
using GuardedStack = boost::context::basic_protected_fixedsize_stack<PageSize>;

/// The library's guarded stack, but remembers where it lies and leaves no marks of the sanitizer
/// on addresses that somebody else may be given later.
class Stack {
 public:
  Stack(std::size_t bytes, const void*& bottom, std::size_t& size)
      : memory(bytes), bottom(bottom), size(size) {}

  boost::context::stack_context allocate() {
    boost::context::stack_context stack = memory.allocate();
    size = stack.size;
    bottom = static_cast<char*>(stack.sp) - stack.size;
    return stack;
  }
  void deallocate(boost::context::stack_context& stack) noexcept {
    forgetStack(static_cast<char*>(stack.sp) - stack.size, stack.size);
    memory.deallocate(stack);
  }

 private:
  GuardedStack memory;
  const void*& bottom;
  std::size_t& size;
};

struct Pool {
  std::mutex mutex;
  std::vector<std::unique_ptr<Fiber>> idle;
};

Pool& pool() {
  static Pool* const instance = new Pool; // outlives every thread that may still run kernels
  return *instance;
}

} // namespace

Fiber::Fiber(std::size_t bytes)
    : inside(std::allocator_arg, Stack(bytes, insideBottom, insideBytes),
             [this](Context&& caller) { return loop(std::move(caller)); }) {}

Fiber::~Fiber() {
  ending = true;
  resume();
}

void Fiber::start(std::function<void()> function) {
  work = std::move(function);
}

void Fiber::resume() {
  beginSwitch(&outsideFake, insideBottom, insideBytes);
  Context back = std::move(inside).resume();
  endSwitch(outsideFake, nullptr, nullptr);
  inside = std::move(back);
}

void Fiber::suspend() {
  beginSwitch(&insideFake, outsideBottom, outsideBytes);
  Context caller = std::move(outside).resume();
  endSwitch(insideFake, &outsideBottom, &outsideBytes);
  outside = std::move(caller);
}

Fiber::Context Fiber::loop(Context&& caller) {
  endSwitch(nullptr, &outsideBottom, &outsideBytes);
  outside = std::move(caller);
  while (!ending) {
    busy = true;
    work();
    busy = false;
    suspend();
  }
  beginSwitch(nullptr, outsideBottom, outsideBytes); // null: this stack is given up
  return std::move(outside);
}

FiberLoan::FiberLoan(int count) {
  {
    Pool& source = pool();
    std::lock_guard lock(source.mutex);
    while (static_cast<int>(fibers.size()) < count && !source.idle.empty()) {
      fibers.push_back(std::move(source.idle.back()));
      source.idle.pop_back();
    }
  }
  while (static_cast<int>(fibers.size()) < count)
    fibers.push_back(std::make_unique<Fiber>(stackBytes));
}

FiberLoan::~FiberLoan() {
  Pool& source = pool();
  std::lock_guard lock(source.mutex);
  for (std::unique_ptr<Fiber>& fiber : fibers)
    source.idle.push_back(std::move(fiber));
}

} // namespace kiln
