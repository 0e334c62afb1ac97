// Ranges: a record function for Kineto, and the same for NVIDIA's tools where there is a GPU.
#include "kiln/profile.h"
#include "runtime/profile/Device.h"

#include <ATen/Context.h>
#include <ATen/record_function.h>
#include <torch/csrc/profiler/stubs/base.h>

namespace kiln::profile {

bool hasDevices() {
  return at::hasCUDA();
}

void waitForDevices() {
  if (!hasDevices())
    return;
  const auto* cuda = torch::profiler::impl::cudaStubs();
  cuda->onEachDevice([cuda](int) { cuda->synchronize(); });
}

struct Marked::State {
  at::RecordFunction record{at::RecordScope::USER_SCOPE};
  const bool pushed = hasDevices();
};

Marked::Marked(const std::string& name) : state_(new State) {
  if (state_->record.isActive())
    state_->record.before(name);
  if (state_->pushed)
    torch::profiler::impl::cudaStubs()->rangePush(name.c_str());
}

Marked::~Marked() {
  if (state_->pushed)
    torch::profiler::impl::cudaStubs()->rangePop();
}

} // namespace kiln::profile
