// Recording: a boxed fallback at a dispatch key above all others, which is on for the thread that
// records.
#include "runtime/compile/Recorder.h"

#include <ATen/ops/alias.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/library.h>

namespace kiln::compiled {

namespace {

/// The one that LibTorch keeps for modes written in C++: nothing else in it uses the key.
constexpr auto kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

thread_local Recorder* recorder = nullptr;

void fallback(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  const auto now = c10::impl::tls_local_dispatch_key_set();
  const c10::impl::ExcludeDispatchKeyGuard below(kKey);
  if (recorder)
    recorder->call(handle, *stack, now);
  else
    handle.callBoxed(stack);
}

/// Ends the recording however the function is left.
struct Scope {
  explicit Scope(Recorder* mine) { recorder = mine; }
  ~Scope() { recorder = nullptr; }
};

} // namespace

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

bool canRecord() {
  return !c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE);
}

bool isRecording() {
  return recorder != nullptr;
}

Tape record(const std::function<Tensors(const Tensors&)>& f, const Tensors& arguments,
            Tensors& results) {
  // Tensors of their own: one that is given twice, or that the function also has captured, need not
  // be the same the next time.
  Tensors given;
  for (const at::Tensor& argument : arguments)
    given.push_back(at::alias(argument));
  const c10::impl::IncludeDispatchKeyGuard on(kKey);
  const auto allocations = std::make_shared<Allocations>();
  const c10::DebugInfoGuard told(c10::DebugInfoKind::PROFILER_STATE, allocations);
  Recorder mine(given, *allocations);
  const Scope scope(&mine);
  results = f(given);
  mine.finish(results);
  return std::move(mine.tape);
}

} // namespace kiln::compiled
