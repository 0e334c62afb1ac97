// Names and sizes of the element types; the one place where they are spelled.
#include "codegen/backend/Fail.h"

#include <array>

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
  for (const Row& row : rows)
    if (row.name == text)
      return row.dtype;
  fail(ErrorKind::input, "'{}' is no element type; allowed are f64, f32, bf16, f16, i64, i32, i1",
       text);
}

} // namespace kiln
