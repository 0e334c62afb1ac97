// How a named operation becomes a function of its own: from sizes, an element type and settings, as
// a command line or a line of a workload has them, to MLIR text over arguments of its own.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <utility>
#include <vector>

namespace kiln::ir {

struct OpRequest {
  std::string op;
  std::vector<int64_t> shape;                                // -1: known at run time only
  std::string element;                                       // as MLIR writes it
  std::vector<std::pair<std::string, std::string>> settings; // name, value; each name once
};

/// "8x?x64", as requests are written.
std::string sizesText(llvm::ArrayRef<int64_t> shape);
/// "tensor<8x?x64xbf16>".
std::string tensorText(llvm::ArrayRef<int64_t> shape, llvm::StringRef element);
/// What is wrong with a request.
llvm::Error refusal(const OpRequest& request, const std::string& problem);

class OpFunction {
 public:
  /// A word beside the shape: "causal", and what it may be, for messages: "first or last".
  struct Setting {
    llvm::StringRef name, allowed;
  };
  virtual llvm::ArrayRef<Setting> settings() const { return {}; }
  /// The text of a function that has the operation's name.
  virtual llvm::Expected<std::string> text(const OpRequest& request) const = 0;
  /// Leaves every size open that may be. Gives their values, in the order in which the function has
  /// run-time sizes.
  virtual std::vector<int64_t> open(OpRequest& request) const = 0;

 protected:
  ~OpFunction() = default; // lives as long as the process
};

/// Of operations on rows: the leading sizes may be open, the last one is the width.
class RowFunction final : public OpFunction {
 public:
  /// Text over the types $x (rows), $row (one row, fp32), $each (one number a row, fp32) and $index
  /// (one i64 a row); empty: there is no function.
  explicit constexpr RowFunction(const char* pattern) : pattern(pattern) {}
  const OpFunction* orNone() const { return *pattern ? this : nullptr; }

  llvm::Expected<std::string> text(const OpRequest& request) const override;
  std::vector<int64_t> open(OpRequest& request) const override;

 private:
  const char* pattern;
};

} // namespace kiln::ir
