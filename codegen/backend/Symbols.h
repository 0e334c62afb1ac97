// The run-time sizes of one launch and the buffers that set them, each checked against the tensor
// that the kernel was compiled for. Every refusal names the argument, the number given, the number
// allowed and a way out.
#pragma once

#include "codegen/backend/LaunchPlan.h"

#include <array>

namespace kiln {

/// Run-time sizes that a plan may have. Few enough to keep them on the stack.
inline constexpr int maxSymbols = 64;

/// Values of the run-time sizes, and which dimension set each, for the message of a conflict.
class Symbols {
 public:
  /// `function`: whose they are, for messages; outlives them.
  explicit Symbols(const std::string& function) : function(&function) {}

  void set(int symbol, std::int64_t value) {
    known |= std::uint64_t(1) << symbol;
    values[static_cast<std::size_t>(symbol)] = value;
  }
  /// Takes them from the sizes of buffers; `role`: "input" or "output". Throws Error(input) for
  /// another number of buffers, ranks, sizes or strides; pointers are not looked at.
  void bind(const std::vector<TensorInfo>& tensors, const char* role,
            std::span<const Buffer> buffers);
  /// The product. Throws Error(input) for a size that nothing has set, or beyond 64 bits.
  std::int64_t product(std::span<const Extent> factors) const;

 private:
  struct Origin { // without initial values: most are never set, and there are many
    const TensorInfo* tensor;
    const char* role;
    std::size_t dimension;
  };
  bool isKnown(int symbol) const { return (known >> symbol & 1) != 0; }
  void bindOne(const TensorInfo& tensor, const char* role, const Buffer& buffer);

  const std::string* function;
  std::uint64_t known = 0; // a bit a symbol
  std::array<std::int64_t, maxSymbols> values;
  std::array<Origin, maxSymbols> origins; // of those that a buffer has set
};

/// Values given for the run-time sizes of a function: one each in the order of their symbols, one
/// for all, or none yet. Throws Error(input) for another number, naming the sizes that there are.
void checkSizes(const std::string& function, std::span<const TensorInfo> inputs,
                std::span<const TensorInfo> outputs, std::span<const std::int64_t> values);
/// In elements; packed where the buffer names none.
std::int64_t strideOf(const Buffer& buffer, std::size_t dimension);
/// Throws Error(input) for null and for less alignment than was compiled for, unless it is empty.
void checkPointer(const TensorInfo& tensor, const char* role, const Buffer& buffer);
/// Throws Error(input) if the product does not fit in 64 bits; `what` it is of.
std::int64_t multiply(std::int64_t a, std::int64_t b, std::string_view what);

} // namespace kiln
