// State of a GPU as the driver's management library tells it: clocks, temperature, throttling, who
// else computes there. The library is opened at run time; nothing is ever set. Where it is missing,
// little is known and nothing fails.
#pragma once

#include "autotune/Records.h"
#include "codegen/backend/Driver.h"

namespace kiln::autotune {

/// Conditions of this device now, as a worker process on it sees them.
Conditions conditionsOf(const DeviceInfo& device);

} // namespace kiln::autotune
