// The thread that makes kernels: what a store has chosen, else the cost model's choice, compiled.
// Started at the first request, joined at the end of the process. A process that forks waits until
// nothing is being compiled, for some seconds at most; the child goes on with a thread of its own,
// which only reads stores. If it was forked in the middle nevertheless it compiles nothing: all
// that has no kernel yet is left to ATen, which the report says.
#pragma once

#include "kiln/cache.h"
#include "kiln/torch.h"
#include "runtime/Order.h"

namespace kiln::runtime {

class Backend;

/// Where kernels are taken from and kept, from here on.
void configureCompiler(const Options& options);
/// See kiln::freeze().
std::string freezeChoices();
void enqueue(Order& order);
/// Returns when the order is settled, with a kernel or without.
void waitFor(const Order& order);
void waitForAll();
/// A program over lists that its caller cannot go on without: a store's choice, else the cost
/// model's, compiled here and now for a device of the backend. Throws Error.
Program compileNow(TuningTask task, const Backend& backend, int device);
/// Whether main has returned or exit() was called.
bool isEnding();
/// In a forked process: goes on with what was asked for before. Next to nothing otherwise.
void resumeCompiling();
/// Kernels of orders so far, by where they came from.
struct KernelCounts {
  std::size_t stored = 0, compiled = 0;
};
KernelCounts kernelCounts();
/// A workload of what the stores have not measured, of all that was asked for.
void recordMissing(const std::filesystem::path& workload);
/// "in /home/me/tuned.db"; warnings about stores follow.
std::string describeStores();

} // namespace kiln::runtime
