// Types of MLIR for the modules that routes write.
#pragma once

#include "runtime/Key.h"

#include <fmt/format.h>

namespace kiln::runtime {

/// tensor<?x128xbf16>
inline std::string rowsType(const Key& key, DType dtype) {
  return fmt::format("tensor<?x{}x{}>", key.width, name(dtype));
}
inline std::string rowsType(const Key& key) {
  return rowsType(key, key.dtypes[0]);
}
/// tensor<128xbf16>: what all rows share
inline std::string rowType(const Key& key, DType dtype) {
  return fmt::format("tensor<{}x{}>", key.width, name(dtype));
}
inline std::string rowType(const Key& key) {
  return rowType(key, key.dtypes[0]);
}
/// A statistic: one number a row.
inline constexpr const char* kStatistic = "tensor<?xf32>";
inline constexpr const char* kNoGradient = " {kiln.gradient = false}";

inline bool has(const Key& key, unsigned bit) {
  return (key.variant >> bit & 1) != 0;
}

/// The key's number as an f32 attribute.
inline std::string numberText(const Key& key) {
  return fmt::format("{:.9e} : f32", static_cast<float>(key.number));
}

} // namespace kiln::runtime
