// See Emitter.h.
#include "codegen/emit/Emitter.h"

#include "codegen/emit/Outlines.h"
#include "codegen/emit/ScalarText.h"
#include "codegen/exit/Exit.h"
#include "kiln/kiln.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/StringExtras.h"

#include <limits>

using namespace mlir;

namespace kiln {

static constexpr size_t kLineWidth = 100;

/// Whether a name may be that of a variable, unless it is taken: not one that compilers keep for
/// themselves, nor a macro of the device library.
static bool isWord(StringRef text) {
  constexpr size_t most = 64;
  return !text.empty() && text.size() <= most && llvm::isAlpha(text.front()) &&
         !text.contains("__") && !text.starts_with("KILN_") &&
         llvm::all_of(text, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

/// Variables of what families print, and what C++ and CUDA reserve; beside them what the headers of
/// the device library declare for all.
static constexpr StringLiteral kReserved =
    "Tile alignas alignof and and_eq asm auto bitand bitor bool break c case catch ceilf char "
    "char16_t char32_t char8_t chunk class co_await co_return co_yield compl concept const "
    "const_cast consteval constexpr constinit continue decltype default delete do double "
    "dynamic_cast else enum erff exp2f expf explicit expm1f export extern fabsf false float "
    "floorf fmaf fmaxf fminf for friend goto i if inline int kiln log2f logf long main "
    "mutable namespace new noexcept not not_eq nullptr older operator or or_eq piece powf "
    "private protected public r register reinterpret_cast requires rest return rsqrtf short "
    "signed sizeof sqrtf stage static static_assert static_cast struct switch tanhf template "
    "this thread_local throw true try typedef typeid typename union unsigned using virtual "
    "void volatile wchar_t while xor xor_eq";
static constexpr StringLiteral kDeclared =
#include "codegen/emit/device_names.inc"
    ;

static const llvm::StringSet<>& reservedNames() {
  static const llvm::StringSet<> names = [] {
    llvm::StringSet<> set;
    SmallVector<StringRef> words;
    kReserved.split(words, ' ');
    kDeclared.split(words, ' ', -1, /*KeepEmpty=*/false);
    for (StringRef word : words)
      set.insert(word);
    return set;
  }();
  return names;
}

std::string commentLine(StringRef text) {
  constexpr size_t most = 200;
  std::string line = text.starts_with("kiln.launch") ? "//  " : "// ";
  line += printable({text.data(), std::min(text.size(), most)});
  if (text.size() > most)
    line += "...";
  else if (line.back() == '\\') // which would make the next line part of the comment
    line += '.';
  return line + "\n";
}

Emitter::Emitter(llvm::raw_ostream& out, const Outlines& outlines)
    : out_(out), outlines_(outlines), taken_(reservedNames()) {
  for (StringRef name : outlines.names())
    taken_.insert(name);
}

std::string Emitter::fresh(StringRef hint) {
  std::string base = isWord(hint) ? hint.str() : "value", name = base;
  for (int n = 1; !taken_.insert(name).second; ++n)
    name = base + "_" + std::to_string(n);
  return name;
}

std::string Emitter::declare(Value value, StringRef hint) {
  if (auto named = dyn_cast<NameLoc>(value.getLoc()); named && isWord(named.getName()))
    hint = named.getName().getValue();
  return names_[value] = fresh(hint);
}

std::string Emitter::name(Value value) {
  auto found = names_.find(value);
  assert(found != names_.end() && "a value is declared before it is used");
  return found->second;
}

std::string Emitter::memoryType(Type type) {
  return type.isInteger(1) ? "u8" : scalarType(type);
}
std::string Emitter::scalarType(Type type) {
  if (type.isF32())
    return "float";
  if (type.isBF16())
    return "bf16";
  if (type.isF16())
    return "f16";
  if (type.isInteger(1))
    return "bool";
  return type.isInteger(32) ? "i32" : "i64";
}

//===- Expressions --------------------------------------------------------------------------===//

/// Expressions that are nested deeper are hard to read, and some compilers refuse them.
static constexpr int kMostNested = 32;

bool Emitter::inlined(Operation& op) {
  if (isa<arith::ConstantOp>(op))
    return true;
  if (!op.hasOneUse())
    return false;
  int depth = 0;
  for (Value operand : op.getOperands())
    if (Operation* inside = operand.getDefiningOp())
      depth = std::max(depth, depths_.lookup(inside) + 1);
  if (depth < kMostNested)
    depths_[&op] = depth;
  return depth < kMostNested;
}

std::string Emitter::expression(Value value, int precedence) {
  if (auto found = names_.find(value); found != names_.end())
    return found->second;
  return text(value.getDefiningOp(), precedence);
}

/// Operands bind tighter than the operator; the right one strictly, since neither rounding sums
/// nor differences may be regrouped.
std::string Emitter::text(Operation* op, int precedence) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    std::string literal = literalText(constant.getValue());
    return literal.front() == '-' && precedence > 15 ? "(" + literal + ")" : literal;
  }
  ScalarText scalar = scalarText(op);
  StringRef pattern = outlines_.callOf(op);
  if (pattern.empty())
    pattern = scalar.text;
  else
    scalar.precedence = kPrimary;
  bool call = pattern.contains('(');
  std::string result;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '$') {
      result += pattern[i];
    } else if (char what = pattern[++i]; what == 't') {
      result += scalarType(op->getResult(0).getType());
    } else {
      int operand = what - '0';
      int bound = call && scalar.precedence == kPrimary ? 0 : scalar.precedence + (operand > 0);
      std::string inner = expression(op->getOperand(operand), scalar.precedence == 15 ? 15 : bound);
      const bool decrements = StringRef(result).ends_with("-") && inner.front() == '-';
      result += decrements ? "(" + inner + ")" : inner;
    }
  }
  return scalar.precedence < precedence ? "(" + result + ")" : result;
}

void Emitter::block(Block& block) {
  for (Operation& op : block) {
    if (auto exit = dyn_cast<cu::ExitOpInterface>(op)) {
      exit.emit(*this);
    } else if (!inlined(op) && !op.use_empty()) {
      Value value = op.getResult(0);
      std::string text = expression(value);
      line("const " + scalarType(value.getType()) + " " + declare(value, "t") + " = " + text + ";");
    }
  }
}

//===- Lines --------------------------------------------------------------------------------===//

/// Where to break a line so that at most `room` columns stand before: in the fewest brackets, there
/// after the last comma, or after the last operator if there is none. 0: nowhere.
static size_t breakOf(StringRef text, size_t room) {
  size_t best = 0;
  int depth = 0, rankOfBest = std::numeric_limits<int>::max();
  for (size_t i = 2; i < text.size() && i <= room; ++i) {
    char before = text[i - 1];
    depth += (before == '(' || before == '{') - (before == ')' || before == '}');
    bool isOperator = StringRef("+-*/?:").contains(before) && text[i - 2] == ' ';
    int rank = 2 * depth + isOperator;
    if (text[i] != ' ' || !(before == ',' || isOperator) || rank > rankOfBest)
      continue;
    best = i;
    rankOfBest = rank;
  }
  return best;
}

/// Long lines go on below their first bracket if they break at its arguments, else by 4 columns.
void Emitter::line(const std::string& text) {
  size_t indent = 2 * depth_;
  StringRef rest = text;
  while (indent + rest.size() > kLineWidth) {
    size_t cut = breakOf(rest, kLineWidth - indent);
    if (cut == 0)
      break;
    out_.indent(indent) << rest.take_front(cut) << "\n";
    if (rest.data() == text.data()) {
      size_t bracket = rest.find('(');
      bool arguments = rest[cut - 1] == ',' && bracket < std::min<size_t>(cut, kLineWidth / 2) &&
                       !rest.take_front(bracket).contains(' ');
      indent += arguments ? bracket + 1 : 4;
    }
    rest = rest.drop_front(cut + 1);
  }
  out_.indent(indent) << rest << "\n";
}

void Emitter::open(const std::string& head) {
  line(head.empty() ? "{" : head + " {");
  ++depth_;
}
void Emitter::unrolled(const std::string& head, int times) {
  out_ << "#pragma unroll" << (times ? " " + std::to_string(times) : "") << "\n";
  open(head);
}
void Emitter::close(const std::string& after) {
  --depth_;
  line("}" + after);
}

static std::string placeText(Location location) {
  if (auto named = dyn_cast<NameLoc>(location))
    return placeText(named.getChildLoc());
  if (auto fused = dyn_cast<FusedLoc>(location))
    return fused.getLocations().empty() ? "" : placeText(fused.getLocations().front());
  auto file = dyn_cast<FileLineColLoc>(location);
  if (!file)
    return "";
  return file.getFilename().str() + ":" + std::to_string(file.getLine());
}

void Emitter::location(Operation* op) {
  std::string place = placeText(op->getLoc());
  if (place.empty() || place == lastLocation_)
    return;
  lastLocation_ = place;
  out_.indent(2 * depth_) << commentLine(place);
}

} // namespace kiln
