// Nothing of the library is destroyed when the process ends: neither its own tables nor those that
// LLVM and MLIR keep in static objects and, of the main thread, in thread-local ones. So functions
// may be called until the very end, from destructors of a program's static objects and by threads
// that still compile while main returns. Memory goes with the process.
//
// These are the functions that compilers call to have such an object destroyed later. The library
// sees them in the place of the C++ library's; nobody else does.
#include <unistd.h>

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {

using Destructor = void (*)(void*);

/// Of the C library: what the C++ library's function below calls.
int __cxa_thread_atexit_impl(Destructor destructor, void* object, void* library);

[[gnu::visibility("hidden")]] int __cxa_atexit(Destructor, void*, void*) {
  return 0;
}

/// Other threads come and go, and so does what they have.
[[gnu::visibility("hidden")]] int __cxa_thread_atexit(Destructor destructor, void* object,
                                                      void* library) {
  return ::gettid() == ::getpid() ? 0 : __cxa_thread_atexit_impl(destructor, object, library);
}

} // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
