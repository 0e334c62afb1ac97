// How a store gets what it lacks: compiled by the cost model's choice, or tuned.
#pragma once

#include "autotune/Key.h"
#include "autotune/store/Store.h"
#include "kiln/tune.h"

namespace kiln::autotune {

/// A program that the cost model chose, as a store has it.
struct Unproved {
  const Key& key;
  const std::string& schedule;
  const std::string& cubin; // SHA-256
  const Program& program;
  const std::string& text; // of its function
};
/// Nobody measured the cost model's choice, so nobody has compared it with fp64: that is done
/// before it serves anybody (kiln::firstCheck), once, where there is a GPU that it is for. `known`
/// may have a verdict; a new one is left in `keeper`, if there is one. Throws Error(verification)
/// for a program that fails, or failed before.
void prove(const Unproved& choice, const Store& known, Store* keeper);

/// The cost model's choice, compiled, kept and proved. `described`: the task's.
Program compileInto(Store& store, const TuningTask& task, const Described& described);
/// kiln::tune on a store that is open.
std::vector<TuneResult> tuneInto(Store& store, std::span<const TuneTask> tasks,
                                 const TuneOptions& options);

} // namespace kiln::autotune
