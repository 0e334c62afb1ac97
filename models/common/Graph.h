// A training step as one CUDA graph: captured once, then replayed, so that the host enqueues one
// thing a step. Nothing in it may wait for the device or depend on numbers of the host.
#pragma once

#include <ATen/core/Tensor.h>
#include <functional>
#include <memory>

namespace kiln::models {

class StepGraph {
 public:
  /// Captures what `work` enqueues, which does not run yet. What it has made lives in the graph's
  /// own memory, and each replay writes it anew. What lives only within `work` may share memory
  /// with that of another graph, `beside`, if the two never run at the same time. Throws
  /// Error(unavailable) for a device without graphs, Error(device) for what cannot be captured.
  StepGraph(at::Device device, const std::function<void()>& work,
            const StepGraph* beside = nullptr);
  ~StepGraph();

  /// On the current stream.
  void replay();
  /// Does `work` now, in memory that replays write only while they run: for a step that is no graph
  /// yet, where there is no room for both. Nothing that it makes may be used behind it but by later
  /// graphs.
  void lendMemory(const std::function<void()>& work);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// Throws Error(unavailable) if graphs cannot be captured there.
void needGraphs(at::Device device);

} // namespace kiln::models
