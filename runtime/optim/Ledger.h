// Who computed the optimizers' steps, and why not Kiln: counted for kiln::report().
#pragma once

#include <string>

namespace kiln::optim {

void countByLists();
/// `reason` in full the first time also goes to the log. Throws Error in strict mode.
void countByTorch(const std::string& reason, const std::string& example);
/// Rows of the report; empty if there were no steps.
std::string ledgerRows();

} // namespace kiln::optim
