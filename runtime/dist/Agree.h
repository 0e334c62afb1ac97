// Ranks that train together have the same parameters: by name, shape and dtype, which is checked,
// and by number, which rank 0's are sent for.
#pragma once

#include "kiln/dist/data_parallel.h"

namespace kiln::dist {

/// Under their names, tied ones once.
std::vector<NamedParameter> parametersOf(const torch::nn::Module& module);
/// Those that are the same tensor once, under the first name.
std::vector<NamedParameter> withoutTies(const std::vector<NamedParameter>& parameters);

std::vector<std::string> linesOf(const std::string& text);
/// Throws Error(input) on all ranks with the first line in which a rank differs from rank 0.
void checkAgreement(Group& group, const std::vector<NamedParameter>& parameters,
                    const std::string& options);
/// Rank 0's numbers for all.
void sendFirst(Group& group, const std::vector<NamedParameter>& parameters);

} // namespace kiln::dist
