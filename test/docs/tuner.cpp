// What autotune/README.md shows of stores in a program; docs_test.py holds the two together.
#include <kiln/tuner.h>

#include <vector>

void launchFromStore(const std::vector<kiln::TuningTask>& tasks,
                     std::span<const kiln::Buffer> inputs, std::span<const kiln::Buffer> outputs,
                     void* workspace, void* stream) {
  kiln::TunerOptions options;
  options.layers.project = "shipped.db";          // asked before the user's and the system's layer
  kiln::Tuner tuner = kiln::Tuner::open(options); // offline: never compiles, never times
  tuner.warmup(tasks);                            // loads their kernels
  kiln::TaskName name = tuner.name(tasks[0]);     // once
  if (const kiln::Tuned* tuned = tuner.lookup(name)) // 9 ns, no lock: safe inside graph capture
    tuned->executable().launch(inputs, outputs, workspace, stream);
}
