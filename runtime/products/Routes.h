// ATen's products of matrices on GPUs, mm, bmm and addmm, by the algorithms that a file names.
#pragma once

#include "kiln/torch.h"

namespace kiln::runtime {

/// As the options say from here on. Throws Error, and changes nothing then, for a file that cannot
/// be used.
void configureProducts(const Options& options);

/// Lines of kiln::report().
void addProductsTo(std::string& rows, std::string& notes);

} // namespace kiln::runtime
