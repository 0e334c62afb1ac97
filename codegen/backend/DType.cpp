// Names and sizes of the element types; the one place where they are spelled.
#include "codegen/backend/Fail.h"
#include "dialect/DidYouMean.h"

#include <array>
#include <fmt/ranges.h>

namespace kiln {

namespace {

struct Row {
  DType dtype;
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array<Row, 7> rows = {{{DType::f64, "f64", 8},
                                      {DType::f32, "f32", 4},
                                      {DType::bf16, "bf16", 2},
                                      {DType::f16, "f16", 2},
                                      {DType::i64, "i64", 8},
                                      {DType::i32, "i32", 4},
                                      {DType::i1, "i1", 1}}};

/// What other libraries call them; read, never written.
constexpr std::array<std::pair<std::string_view, DType>, 14> aliases = {{{"fp32", DType::f32},
                                                                         {"float32", DType::f32},
                                                                         {"float", DType::f32},
                                                                         {"bfloat16", DType::bf16},
                                                                         {"bfloat", DType::bf16},
                                                                         {"fp16", DType::f16},
                                                                         {"float16", DType::f16},
                                                                         {"half", DType::f16},
                                                                         {"fp64", DType::f64},
                                                                         {"float64", DType::f64},
                                                                         {"double", DType::f64},
                                                                         {"int64", DType::i64},
                                                                         {"int32", DType::i32},
                                                                         {"bool", DType::i1}}};

const Row& rowOf(DType dtype) {
  for (const Row& row : rows)
    if (row.dtype == dtype)
      return row;
  fail(ErrorKind::input, "element type number {} does not exist; allowed are 0 to {}",
       static_cast<int>(dtype), rows.size() - 1);
}

} // namespace

std::string_view name(DType dtype) {
  return rowOf(dtype).name;
}

std::size_t sizeInBytes(DType dtype) {
  return rowOf(dtype).bytes;
}

DType parseDType(std::string_view text) {
  std::vector<std::string_view> names, all;
  for (const Row& row : rows) {
    if (row.name == text)
      return row.dtype;
    names.push_back(row.name);
  }
  all = names;
  for (const auto& [alias, dtype] : aliases) {
    if (alias == text)
      return dtype;
    all.push_back(alias);
  }
  fail(ErrorKind::input, "'{}' is no element type; allowed are {}{}", text, fmt::join(names, ", "),
       didYouMean(text, all));
}

} // namespace kiln
