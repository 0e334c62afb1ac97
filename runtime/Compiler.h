// The thread that makes kernels: what a store has chosen, else the cost model's choice, compiled.
// Started at the first request, joined at the end of the process.
#pragma once

#include "kiln/cache.h"
#include "kiln/torch.h"
#include "runtime/Plan.h"

namespace kiln::runtime {

class Backend;

/// Where kernels are taken from and kept, from here on.
void configureCompiler(const Options& options);
void enqueue(Plan& plan);
/// Returns when the plan is settled, with a kernel or without.
void waitFor(const Plan& plan);
void waitForAll();
/// A program over lists that its caller cannot go on without: a store's choice, else the cost
/// model's, compiled here and now for a device of the backend. Throws Error.
Program compileNow(TuningTask task, const Backend& backend, int device);
/// "in /home/me/tuned.db"; warnings about stores follow.
std::string describeStores();

/// The module of a plan as a task: "softmax 8192x128 bf16".
struct TaskText {
  std::string module, label;
};
TaskText taskTextOf(const Plan& plan);

} // namespace kiln::runtime
