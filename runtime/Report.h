// A line of kiln::report(), the same for routed ops, fused functions and optimizers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kiln::runtime {

/// `what`: shapes and dtypes; `used`: how many of the calls Kiln's kernels computed; `text`: by
/// which kernel, or why not.
std::string reportRow(std::string_view op, std::string_view what, std::uint64_t calls,
                      std::uint64_t used, std::string_view text);

} // namespace kiln::runtime
