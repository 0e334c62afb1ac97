// What of one key's history another key takes over that has the same code: another version of
// Kiln's, or the function whose sizes are known at run time only.
#pragma once

#include "autotune/Key.h"
#include "autotune/store/Store.h"

namespace kiln::autotune {

/// The schedules whose times a reader of the choice asks for, with their cubins: its own, the
/// default's, the runner-up's. A choice without a cubin (the vendor's) is none of them.
std::map<std::string, std::string> schedulesToCarry(const History& history);

/// `key` as it was measured: on the device and under the regime of `known`.
Key measuredAs(Key key, const Key& known);

} // namespace kiln::autotune
