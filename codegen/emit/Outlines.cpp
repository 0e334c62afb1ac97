// See Outlines.h.
#include "codegen/emit/Outlines.h"

#include "codegen/emit/ScalarText.h"
#include "codegen/exit/Exit.h"

using namespace mlir;

namespace kiln {

/// A kernel has up to so many that are written out. A thread may compute four elements and more,
/// each with its own copy; and a function may have a hundred kernels that just have so many.
static constexpr size_t kMostWrittenOut = 12;

static bool isOfFloats(Operation* op) {
  auto isFloat = [](Type type) { return type.isF32(); };
  return llvm::all_of(op->getOperandTypes(), isFloat) &&
         llvm::all_of(op->getResultTypes(), isFloat);
}

Outlines::Outlines(ModuleOp module) {
  for (auto kernel : module.getOps<cu::KernelOp>()) {
    SmallVector<std::pair<Operation*, ScalarText>> found;
    kernel.walk([&](Operation* op) {
      if (op->getNumRegions() || !findScalarText(op->getName().getStringRef()) || !isOfFloats(op))
        return;
      if (ScalarText text = scalarText(op); !text.outlined.empty())
        found.emplace_back(op, text);
    });
    if (found.size() <= kMostWrittenOut)
      continue;
    for (const auto& [op, text] : found) {
      calls_[op] = text.outlined;
      texts_.insert({text.outlined, text.text});
    }
  }
}

/// A text with the names of a definition's parameters for its operands, after `before` each.
static std::string ofParameters(StringRef text, StringRef before) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] == '$')
      result += (before + Twine(char('a' + (text[++i] - '0')))).str();
    else
      result += text[i];
  return result;
}

void Outlines::print(llvm::raw_ostream& out) const {
  for (const auto& [call, text] : texts_)
    out << "\nKILN_OUTLINE float " << ofParameters(call, "float ") << " {\n  return "
        << ofParameters(text, "") << ";\n}\n";
}

SmallVector<StringRef> Outlines::names() const {
  SmallVector<StringRef> names;
  for (const auto& [call, text] : texts_)
    names.push_back(call.take_until([](char c) { return c == '('; }));
  return names;
}

} // namespace kiln
