// See AttentionText.h.
#include "runtime/ops/AttentionText.h"

#include "runtime/Text.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <utility>

namespace kiln::runtime {

namespace {

using at::Tensor;

/// Of a key's variant. Masks and biases have a bit for each of five dimensions along which they are
/// the same; of dimensions that are not there the first counts.
enum Bit : unsigned {
  always,
  hasBias,
  hasMask,
  isCausal,
  isStrided, // what has the rows of query, key and value
  hasSteps,  // and the strides of these are multiples of 16 bytes
  hasStridedBias,
  hasStridedMask,
  hasTwoLeading,
  isSquare, // as many queries as keys, whose number is known
  firstWanted,
  firstOfBias = firstWanted + 4,
  firstOfMask = firstOfBias + 5,
  secondLeadingClass = firstOfMask + 5 // six bits
};
enum Dtype : unsigned { ofRows, ofBias }; // in a key

/// The parts of a key's width. A number of keys of 0 comes at run time.
struct Field {
  unsigned from, bits;
  std::int64_t of(const Key& key) const {
    return key.width >> from & ((std::int64_t(1) << bits) - 1);
  }
  std::int64_t with(std::int64_t number) const { return number << from; }
};
constexpr Field rowWidth{0, 9}, valueRowWidth{9, 9}, headCount{18, 16}, keyHeadCount{34, 16},
    keyCount{50, 13};

std::int64_t widthOf(const Key& key) {
  return rowWidth.of(key);
}
std::int64_t valueWidthOf(const Key& key) {
  return valueRowWidth.of(key);
}
std::int64_t headsOf(const Key& key) {
  return headCount.of(key);
}
std::int64_t keyHeadsOf(const Key& key) {
  return keyHeadCount.of(key);
}
double probabilityOf(const Key& key) {
  return std::bit_cast<float>(key.index);
}

std::uint8_t classOf(std::int64_t size) {
  return static_cast<std::uint8_t>(std::bit_width(static_cast<std::uint64_t>(size)));
}
/// A number of queries or keys by its upper three bits, rounded up: 1, 2, ... 8, 10, 12, 14, 16, 20
/// and so on. Powers of two stand for themselves; tiles that fit 160 rows fit 132.
struct RowCount {
  explicit RowCount(std::int64_t count)
      : shift(std::max<int>(
            std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(count - 1, 0))) - 3,
            0)),
        eighths((count + (std::int64_t(1) << shift) - 1) >> shift) {}
  std::int64_t number() const { return eighths << shift; }
  std::uint8_t inKey() const { return static_cast<std::uint8_t>(4 * shift + eighths); }

  int shift;
  std::int64_t eighths; // 5 to 8, and less where nothing is shifted
};

std::uint32_t repeatedBits(const Tensor& tensor, unsigned first) {
  std::uint32_t bits = 0;
  for (std::int64_t d = 0, rank = tensor.dim(); d < rank; ++d)
    bits |= static_cast<std::uint32_t>(tensor.size(d) == 1) << (first + 5U - rank + d);
  return bits;
}

constexpr std::int64_t kStep = 16; // bytes

/// Whether kernels can be promised that rows and heads begin at multiples of 16 bytes, and none at
/// the same place.
bool hasStepsOf16Bytes(std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* tensor : tensors)
    for (std::int64_t d = 0; d + 1 < tensor->dim(); ++d)
      if (const std::int64_t bytes = tensor->stride(d) * tensor->itemsize();
          tensor->size(d) > 1 && (bytes == 0 || bytes % kStep != 0))
        return false;
  return true;
}

/// The number of keys, where kernels are compiled for it: those that hold a bias in shared memory
/// want to know how much that is, and bring it with tensor maps; and blocks have whole heads of
/// narrow rows and few keys without a bias. Else 0.
std::int64_t knownKeys(const AttentionCall& attention) {
  constexpr std::int64_t most = 1024; // more do not fit beside 64 queries
  constexpr std::int64_t widest = 32, fewestOfHead = 17, mostOfHead = 256;
  const std::int64_t keys = attention.key.size(-2);
  const Tensor& bias = attention.bias;
  if (!bias.defined())
    return attention.query.itemsize() == 2 && attention.query.size(-1) <= widest &&
                   attention.value.size(-1) <= widest && keys >= fewestOfHead && keys <= mostOfHead
               ? keys
               : 0;
  const bool holds = bias.is_contiguous() && bias.size(-1) == keys &&
                     bias.size(-2) == attention.query.size(-2) && bias.itemsize() == 2 &&
                     attention.query.itemsize() == 2 && keys <= most &&
                     keys * bias.itemsize() % kStep == 0;
  return holds ? keys : 0;
}

/// Writes the text of functions of a key.
class Writer {
 public:
  explicit Writer(const Key& key)
      : key(key), leading(runtime::has(key, hasTwoLeading) ? "?x?x" : "?x"),
        keyRows(keyCount.of(key) == 0 ? "?" : std::to_string(keyCount.of(key))),
        queryRows(runtime::has(key, isSquare) ? keyRows : "?"), query(ofQueries(widthOf(key))),
        keys(ofKeys(widthOf(key))), value(ofKeys(valueWidthOf(key))),
        output(ofQueries(valueWidthOf(key))), wideOutput(ofQueries(valueWidthOf(key), "f32")),
        statistic(fmt::format("tensor<{}{}x{}xf32>", leading, headsOf(key), queryRows)) {}

  std::string forward() {
    addOperands();
    return fmt::format("func.func @attention({0})\n    -> ({4}{6}, {5}{7}) {{\n"
                       "  %o, %lse = kiln.attention {1} {{{2}}}\n      : ({3}) -> ({4}, {5})\n"
                       "  return %o, %lse : {4}, {5}\n}}\n",
                       fmt::join(arguments, ", "), operands, attributes(), fmt::join(types_, ", "),
                       output, statistic, layout(isStrided, rank()), kNoGradient);
  }

  /// Step by step what the gradient of the above is.
  std::string backward() {
    addOperands();
    const std::string own = operands;
    argument("o", output, isStrided);
    argument("lse", statistic);
    argument("do", output, isStrided);
    std::string text = widened("do") + widened("o");
    text += fmt::format("  %products = arith.mulf {}, {} : {}\n"
                        "  %delta = kiln.reduce sum %products dims [{}] : {} -> {}\n",
                        wide("do"), wide("o"), wideOutput, rank() - 1, wideOutput, statistic);
    std::string results, made, rounded, types, returned;
    const auto add = [&](const char* word, const std::string& name, const std::string& type,
                         const std::string& wideType, const std::string& how) {
      const bool rounds = type != wideType;
      const char* comma = made.empty() ? "" : ", ";
      results += fmt::format("{} {} ", word, wideType);
      made += fmt::format("{}%{}{}", comma, name, rounds ? "_wide" : "");
      types += comma + type + how;
      returned += fmt::format("{}%{}", comma, name);
      plain += comma + type;
      if (rounds)
        rounded +=
            fmt::format("  %{0} = arith.truncf %{0}_wide : {1} to {2}\n", name, wideType, type);
    };
    const std::string strided = layout(isStrided, rank());
    if (wanted(0))
      add("query", "dq", query, ofQueries(widthOf(key), "f32"), strided);
    if (wanted(1))
      add("key", "dk", keys, ofKeys(widthOf(key), "f32"), strided);
    if (wanted(2))
      add("value", "dv", value, ofKeys(valueWidthOf(key), "f32"), strided);
    if (wanted(3))
      add("bias", "db", biasType(), scores(firstOfBias, "f32"), "");
    return fmt::format("func.func @attention_backward({})\n    -> ({}) {{\n{}"
                       "  {} = kiln.attention_backward %do, %delta, %lse, {} {{{}}}\n"
                       "      : ({}, {}, {}, {})\n      -> {}\n{}  return {} : {}\n}}\n",
                       fmt::join(arguments, ", "), types, text, made, own, attributes(), output,
                       statistic, statistic, fmt::join(types_, ", "), results, rounded, returned,
                       plain);
  }

 private:
  bool has(unsigned bit) const { return runtime::has(key, bit); }
  bool wanted(unsigned gradient) const { return has(firstWanted + gradient); }
  int rank() const { return has(hasTwoLeading) ? 5 : 4; }
  bool narrows() const { return key.dtypes[ofRows] != DType::f32; }

  std::string rows(std::int64_t heads, std::string_view count, std::int64_t width,
                   std::string_view element) const {
    return fmt::format("tensor<{}{}x{}x{}x{}>", leading, heads, count, width,
                       element.empty() ? name(key.dtypes[ofRows]) : element);
  }
  std::string ofQueries(std::int64_t width, std::string_view element = {}) const {
    return rows(headsOf(key), queryRows, width, element);
  }
  std::string ofKeys(std::int64_t width, std::string_view element = {}) const {
    return rows(keyHeadsOf(key), keyRows, width, element);
  }
  /// Of a bias or mask.
  std::string scores(unsigned firstRepeated, std::string_view element) const {
    std::string type = "tensor<";
    for (int d = 5 - rank(); d < 5; ++d) {
      const bool repeats = has(firstRepeated + static_cast<unsigned>(d));
      const std::string size = d == 2   ? std::to_string(headsOf(key))
                               : d == 3 ? queryRows
                               : d == 4 ? keyRows
                                        : "?";
      type += (repeats ? "1" : size) + "x";
    }
    return fmt::format("{}{}>", type, element);
  }
  std::string biasType() const { return scores(firstOfBias, name(key.dtypes[ofBias])); }

  /// Strides that are given at run time, but the last.
  std::string layout(unsigned bit, int dimensions) const {
    if (!has(bit))
      return "";
    std::string strides;
    for (int d = 1; d < dimensions; ++d)
      strides += "-1, ";
    const std::size_t step =
        bit == isStrided && has(hasSteps) ? kStep / sizeInBytes(key.dtypes[ofRows]) : 1;
    return fmt::format(" {{kiln.layout = #kiln.layout<strides = [{}1]{}>}}", strides,
                       step > 1 ? fmt::format(", multiple = {}", step) : "");
  }

  void argument(const std::string& name, const std::string& type, unsigned strided = ~0U) {
    arguments.push_back(
        fmt::format("%{}: {}{}", name, type, strided == ~0U ? "" : layout(strided, rank())));
  }
  void operand(const char* word, const std::string& name, const std::string& type,
               unsigned strided = ~0U) {
    argument(name, type, strided);
    types_.push_back(type);
    operands += fmt::format("{}%{}", word, name);
  }
  void addOperands() {
    operand("", "q", query, isStrided);
    operand(", ", "k", keys, isStrided);
    operand(", ", "v", value, isStrided);
    if (has(hasBias))
      operand(" bias ", "b", biasType(), hasStridedBias);
    if (has(hasMask))
      operand(" mask ", "m", scores(firstOfMask, "i1"), hasStridedMask);
    if (const double p = probabilityOf(key); p > 0) {
      operand(" dropout ", "seed", "tensor<i64>");
      operand(", ", "offset", "tensor<i64>");
      operands += fmt::format(" p {:.9e}", p);
    }
  }
  std::string attributes() const {
    return "scale = " + numberText(key) + (has(isCausal) ? ", causal = #kiln.causal<first>" : "");
  }

  std::string wide(const std::string& name) const {
    return "%" + name + (narrows() ? "_wide" : "");
  }
  std::string widened(const std::string& name) const {
    return narrows() ? fmt::format("  %{0}_wide = arith.extf %{0} : {1} to {2}\n", name, output,
                                   wideOutput)
                     : "";
  }

  const Key& key;
  const std::string leading, keyRows, queryRows, query, keys, value, output, wideOutput, statistic;
  std::vector<std::string> arguments, types_;
  std::string operands, plain;
};

} // namespace

bool holdsBias(const AttentionCall& attention) {
  return knownKeys(attention) != 0;
}

void describeAttention(Call& call, const AttentionCall& attention) {
  const Tensor &q = attention.query, &k = attention.key, &v = attention.value;
  const std::int64_t rank = q.dim();
  Key& key = call.key;
  const std::int64_t known = knownKeys(attention);
  key.width = rowWidth.with(q.size(-1)) | valueRowWidth.with(v.size(-1)) |
              headCount.with(attention.heads()) | keyHeadCount.with(attention.keyHeads()) |
              keyCount.with(known);
  key.number = attention.scale;
  key.index = std::bit_cast<std::int32_t>(static_cast<float>(attention.p));
  key.dtypes[ofRows] = *dtypeOf(q.scalar_type());
  const auto bit = [&](Bit at, bool is) { key.variant |= static_cast<std::uint32_t>(is) << at; };
  bit(always, true);
  bit(isCausal, attention.causal);
  bit(isStrided, !q.is_contiguous() || !k.is_contiguous() || !v.is_contiguous());
  const auto isWhole = [](const Tensor& rows) { // so that results without gaps keep the promise
    return rows.size(-1) * static_cast<std::int64_t>(rows.itemsize()) % kStep == 0;
  };
  bit(hasSteps, (key.variant >> isStrided & 1) != 0 && isWhole(q) && isWhole(v) &&
                    hasStepsOf16Bytes({&q, &k, &v}));
  bit(hasTwoLeading, rank == 5);
  bit(isSquare, known != 0 && q.size(-2) == known);
  if (const Tensor& bias = attention.bias; bias.defined()) {
    bit(hasBias, true);
    bit(hasStridedBias, !bias.is_contiguous());
    key.variant |= repeatedBits(bias, firstOfBias);
    key.dtypes[ofBias] = *dtypeOf(bias.scalar_type());
  }
  if (const Tensor& mask = attention.mask; mask.defined()) {
    bit(hasMask, true);
    bit(hasStridedMask, !mask.is_contiguous());
    key.variant |= repeatedBits(mask, firstOfMask);
  }
  key.device = static_cast<std::uint8_t>(std::max<int>(q.device().index(), 0));
  key.rowClass = classOf(q.size(0));
  key.otherClasses = {RowCount(q.size(-2)).inKey(), RowCount(k.size(-2)).inKey()};
  if (rank == 5)
    key.variant |= std::uint32_t(classOf(q.size(1))) << secondLeadingClass;
  call.rows = q.size(0);
  if (attention.bias.defined() || attention.mask.defined() || attention.p > 0)
    call.formulaBytes = q.numel() / std::max<std::int64_t>(q.size(-1), 1) * k.size(-2) *
                        static_cast<std::int64_t>(q.itemsize());
  std::size_t next = 0;
  if (rank == 5)
    call.others[next++] = q.size(1);
  if (q.size(-2) != known)
    call.others[next++] = q.size(-2);
  if (known == 0)
    call.others[next] = k.size(-2);
}

void describeAttention(Call& call, const AttentionCall& attention, const AttentionSaved& saved,
                       const Tensor& grad) {
  describeAttention(call, attention);
  if (!hasStepsOf16Bytes({&saved.output, &grad}))
    call.key.variant &= ~(1U << hasSteps);
  for (unsigned i = 0; i < saved.wanted.size(); ++i)
    call.key.variant |= static_cast<std::uint32_t>(saved.wanted[i]) << (firstWanted + i);
}

std::vector<std::int64_t> usualSizes(const Key& key, std::span<const std::int64_t> sizes) {
  const std::size_t leading = has(key, hasTwoLeading) ? 2 : 1;
  std::vector<std::int64_t> usual;
  for (const std::int64_t size : sizes)
    usual.push_back(usual.size() < leading
                        ? std::int64_t(std::bit_floor(static_cast<std::uint64_t>(size)))
                        : RowCount(size).number());
  return usual;
}

std::string attentionText(const Key& key) {
  return Writer(key).forward();
}
std::string attentionBackwardText(const Key& key) {
  return Writer(key).backward();
}

std::string attentionLabel(const Key& key, std::span<const std::int64_t> sizes) {
  const std::int64_t known = keyCount.of(key);
  const auto last = [&] {
    const std::int64_t size = sizes.back();
    sizes = sizes.first(sizes.size() - 1);
    return size;
  };
  const std::int64_t keys = known == 0 ? last() : known;
  const std::int64_t queries = has(key, isSquare) ? known : last();
  std::int64_t batch = 1;
  for (const std::int64_t size : sizes)
    batch *= size;
  return fmt::format("{}x{}x{}{}x{} {}", batch, headsOf(key), queries,
                     queries == keys ? "" : fmt::format(":{}", keys), widthOf(key),
                     name(key.dtypes[ofRows]));
}

} // namespace kiln::runtime
