// See Precision.h.
#include "models/common/Precision.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>

namespace kiln::models {

Autocast::State Autocast::current(at::DeviceType device) {
  return {at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device)};
}

Autocast::State Autocast::of(const std::string& precision) {
  return {precision == "bf16", at::kBFloat16};
}

Autocast::Autocast(at::DeviceType device, State state) : device(device), before(current(device)) {
  at::autocast::increment_nesting();
  at::autocast::set_autocast_dtype(device, state.dtype);
  at::autocast::set_autocast_enabled(device, state.enabled);
}

Autocast::~Autocast() {
  at::autocast::set_autocast_enabled(device, before.enabled);
  at::autocast::set_autocast_dtype(device, before.dtype);
  if (at::autocast::decrement_nesting() == 0)
    at::autocast::clear_cache();
}

void setPrecision(const std::string& precision, bool deterministic) {
  auto& context = at::globalContext();
  context.setFloat32MatmulPrecision(precision == "tf32" ? "high" : "highest");
  context.setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);
}

} // namespace kiln::models
