// Writes a traced function as a module's text for operands of one kind.
#pragma once

#include "runtime/fuse/Graph.h"
#include "runtime/fuse/Space.h"

#include <map>

namespace kiln::fusion {

/// A value of the function's text.
struct Value {
  std::string name; // "%7"
  Mask mask = 0;
  DType dtype = DType::f32;
};

class Writer {
 public:
  Writer(const Graph& graph, const Kind& kind, const std::string& name, at::ScalarType common,
         std::span<const at::ScalarType> dtypes);

  std::string text; // of the function, once it is made
  std::vector<Mask> resultMasks;

  // For operations.
  const DType common;         // of results
  Value number(double value); // without dimensions
  Value f32(const Value& value);
  Value cast(const Value& value, DType dtype);
  /// With the groups of `mask`, which has those of the value.
  Value spread(const Value& value, Mask mask);
  /// "arith.addf" of values brought to one shape and to fp32.
  Value elementwise(const char* op, std::span<const Value> operands);
  Value compare(const char* predicate, const Value& a, const Value& b);
  Value select(const Value& condition, const Value& a, const Value& b);
  /// Writes "%n = text" with {0}, {1}, ... of the operands and the result's type behind.
  Value named(const std::string& op, std::span<const Value> operands,
              const std::string& attributes);
  /// Refuses values that have one element a row.
  void needColumns(const char* op, const Value& value) const;
  Value reduce(const char* kind, const Value& value);
  Value columnSums(const Value& value);
  Value norm(const char* op, double eps, std::span<const Value> operands);
  Value dropout(const Value& value, double p);
  Value rope(const Value& value, const Value& positions, const std::string& attributes);
  Value crossEntropy(const Value& logits, const Value& classes, const std::string& attributes);
  Mask columns() const { return kind.columns(); }

  /// Throws Error(input) about the function being written.
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  std::string type(Mask mask, DType dtype) const;
  /// Of an argument or a result, behind other attributes.
  std::string layout(bool isApart) const;
  std::string type(const Value& value) const { return type(value.mask, value.dtype); }
  Value line(Mask mask, DType dtype, const std::string& right);
  const Value& like(Mask mask) const;
  void remember(const Value& value);

  const Kind& kind;
  const std::string& function;
  std::string body;
  unsigned next = 0, dropouts = 0;
  std::map<Mask, Value> known; // one of each shape
};

} // namespace kiln::fusion
