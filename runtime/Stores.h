// Where the compiler's thread takes kernels from: the stores that the options name, for what was
// tuned, and the compiler, for the cost model's choice. No kernel leaves here that nobody compared
// with fp64. Every function throws Error.
#pragma once

#include "kiln/cache.h"
#include "kiln/torch.h"
#include "kiln/tuner.h"

#include <optional>

namespace kiln::runtime {

class Backend;

class Stores {
 public:
  /// `isForked`: connections to a store's file must not be taken along into a process that was
  /// forked, nor may others be opened beside them: it is read without locks, and not written.
  /// `isFrozen`: choices are those that stores hold now.
  Stores(const Options& given, bool isForked, bool isFrozen);

  /// As given, but for what a forked process may not do.
  const Options& options() const { return wanted; }

  /// What a store has chosen, tuned before if the mode says so; null: nothing. The host takes what
  /// a store that is named has for the GPU: schedules, and where ATen is faster. `task` becomes
  /// what the choice was made for: a backward that reads ahead is better than what nobody has
  /// measured, though it waits when it is launched.
  const Tuned* find(TuningTask& task, const Backend& backend, int device) const;

  /// A workload of what was not found, or found as the cost model chose it.
  void recordShapes(const std::filesystem::path& workload) const { tuner->recordShapes(workload); }

  /// The cost model's choice, compared with fp64 once; kept in the cache, with the verdict, if
  /// there is one.
  Cache::Result compile(const TuningTask& task, const Backend& backend) const;

  /// What decides choices, in lines.
  std::string describe() const;

 private:
  Options wanted;
  bool isFrozen;
  std::optional<Cache> cache;
  std::optional<Tuner> tuner;
};

/// The kernel of a choice that is Kiln's: as it is stored, and was compared with fp64 before it was
/// chosen, or, where cubins do not run, compiled.
Program programOf(const Tuned& tuned, TuningTask task, const Backend& backend);

} // namespace kiln::runtime
