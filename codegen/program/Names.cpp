// See Names.h.
#include "codegen/program/Names.h"

#include "codegen/backend/Fail.h"
#include "codegen/passes/Passes.h"

#include <algorithm>
#include <map>

using namespace mlir;

namespace kiln::program {
namespace {

/// MLIR's parser, verifier and printer recurse into brackets; people write a handful.
constexpr int kMostNested = 200;
constexpr size_t kMostLetters = 500;

bool isWordLetter(char c) {
  return llvm::isAlnum(c) || c == '_' || c == '$' || c == '.' || c == '-';
}

/// Counts brackets outside of strings and comments. An alias (`#a = ...`, `!a = ...`) is as deep as
/// what it stands for, wherever it is used.
class NestingScan {
 public:
  NestingScan(std::string_view text, std::string_view name) : text(text), name(name) {}

  void run() {
    while (at < text.size())
      step();
  }

 private:
  char peek(size_t ahead = 0) const { return at + ahead < text.size() ? text[at + ahead] : '\0'; }

  void step() {
    const char c = peek();
    if (c == '"')
      return skipString();
    if (c == '/' && peek(1) == '/')
      at = std::min(text.find('\n', at), text.size());
    else if (c == '#' || c == '!')
      alias();
    else if (c == '(' || c == '[' || c == '{' || c == '<')
      reach(++depth), ++at;
    else if (c == ')' || c == ']' || c == '}')
      depth = std::max(depth - 1, 0), ++at;
    else if ((c == '-' && peek(1) == '>') || (c == '>' && peek(1) == '='))
      at += 2; // an arrow, a comparison
    else
      depth = std::max(depth - (c == '>'), 0), ++at;
  }

  void skipString() {
    for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at)
      at += text[at] == '\\';
    ++at;
  }

  void alias() {
    const size_t begin = at++;
    while (isWordLetter(peek()))
      ++at;
    const std::string_view word = text.substr(begin, at - begin);
    size_t next = at;
    while (next < text.size() && (text[next] == ' ' || text[next] == '\t'))
      ++next;
    if (depth == 0 && next < text.size() && text[next] == '=') {
      defined = word;
      depths[word] = 0;
    } else if (auto known = depths.find(word); known != depths.end() && word != defined) {
      reach(depth + known->second);
    }
  }

  /// Until the next definition everything counts as part of the last: too much rather than too
  /// little.
  void reach(int deep) {
    if (deep > kMostNested)
      fail(ErrorKind::input,
           "{}:{}:{}: error: brackets, or aliases within aliases, are nested more than {} deep; "
           "write this part as a flat list",
           printable(name), 1 + std::count(text.begin(), text.begin() + std::ptrdiff_t(at), '\n'),
           at - (at == 0 ? 0 : text.rfind('\n', at - 1) + 1) + 1, kMostNested);
    if (!defined.empty())
      depths[defined] = std::max(depths[defined], deep);
  }

  std::string_view text, name, defined;
  size_t at = 0;
  int depth = 0;
  std::map<std::string_view, int> depths; // of aliases
};

LogicalResult checkName(Location at, StringRef what, StringRef name) {
  if (name.size() > kMostLetters)
    return emitError(at) << "the name of " << what << " begins with '" << name.take_front(40)
                         << "' and has " << name.size() << " letters; up to " << kMostLetters
                         << " are allowed";
  if (std::string shown = printable(name); shown != name)
    return emitError(at) << "the name of " << what << " is '" << shown
                         << "'; names have no control characters, ends of lines, changes of the "
                            "direction of writing or bytes that are not UTF-8, since they stand in "
                            "generated text and in messages";
  return success();
}

LogicalResult checkName(Location at, StringRef what, DictionaryAttr attributes) {
  auto name = attributes ? attributes.getAs<StringAttr>(ir::kNameAttr) : StringAttr();
  return name ? checkName(at, what, name.getValue()) : success();
}

} // namespace

void checkNesting(std::string_view text, std::string_view name) {
  NestingScan(text, name).run();
}

LogicalResult checkNames(ModuleOp module) {
  bool valid = true;
  module.walk([&](Operation* op) {
    if (auto kernel = dyn_cast<ir::KernelOp>(op))
      valid &= succeeded(checkName(op->getLoc(), "a kernel", kernel.getName()));
    auto function = dyn_cast<func::FuncOp>(op);
    if (!function)
      return;
    valid &= succeeded(checkName(op->getLoc(), "a function", function.getName()));
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      valid &= succeeded(
          checkName(op->getLoc(), "argument " + std::to_string(i), function.getArgAttrDict(i)));
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      valid &= succeeded(
          checkName(op->getLoc(), "result " + std::to_string(i), function.getResultAttrDict(i)));
  });
  return success(valid);
}

} // namespace kiln::program
