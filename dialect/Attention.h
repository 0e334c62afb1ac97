// What kiln.attention and kiln.attention_backward share: their operands and attributes by name, the
// rules for these, and the scores in fp64, from which both references are written.
#pragma once

#include "dialect/Kiln.h"
#include "dialect/Random.h"

#include <algorithm>
#include <optional>

namespace kiln::ir {

/// Operands and attributes of either operation. Operands that are not given are null.
struct AttentionForm {
  template <class Op>
  explicit AttentionForm(Op op)
      : op(op), query(op.getQuery()), key(op.getKey()), value(op.getValue()), bias(op.getBias()),
        mask(op.getMask()), queryStarts(op.getQueryStarts()), keyStarts(op.getKeyStarts()),
        seed(op.getSeed()), offset(op.getOffset()), scale(op.getScale().convertToFloat()),
        softcap(op.getSoftcap().convertToFloat()), p(op.getP().convertToFloat()),
        windowLeft(static_cast<int64_t>(op.getWindowLeft())),
        windowRight(static_cast<int64_t>(op.getWindowRight())), causal(op.getCausal()) {}

  /// [L..., h, s, t], [L..., h, s, dv] and [L..., h, s].
  llvm::SmallVector<int64_t> scoresShape() const;
  llvm::SmallVector<int64_t> outputShape() const;
  llvm::ArrayRef<int64_t> rowsShape() const;
  /// Whether the mask is not of keys alone.
  bool masksPlaces() const;

  /// Of starts of packed sequences: they ascend, up to the rows that there are.
  NumbersTaken numbersTaken(mlir::Value operand) const;
  /// What reference() computes: a row of so many; 1: all.
  void sample(int64_t step) const;
  int64_t step() const;
  /// Ranges (Ranges.h) of `count` parts that reference() takes side by side.
  int64_t ranges(int64_t count, const Tensor64& query, const Tensor64& key) const;
  /// What reference() moves by rounding.
  void perturb(double unit, uint64_t seed) const;
  struct Noise {
    double unit = 0.0; // 0: it is exact
    uint64_t seed = 0;
    double least = 0.0; // half of the distance of the type's smallest numbers
    /// Of the sums of products, whose terms are exact or of two parts: they are rounded in fp32.
    double ofSums() const { return unit > 0.0 ? std::max(0x1p-23, std::min(unit, 0x1p-21)) : 0.0; }
    /// In [-1, -0.5] or [0.5, 1]; another one for another number.
    double draw(uint64_t number) const;
  };
  Noise noise() const;

  /// About the largest score of queries, keys and biases near a normal distribution.
  double usualScore() const;

  mlir::Operation* op;
  mlir::Value query, key, value, bias, mask, queryStarts, keyStarts, seed, offset;
  double scale, softcap, p;
  int64_t windowLeft, windowRight;
  Causal causal;
};

mlir::LogicalResult verifyAttention(const AttentionForm& form);

/// The scores in fp64, a row at a time.
class AttentionScores {
 public:
  /// A key that a query sees.
  struct Place {
    int64_t key;  // the row of the key and of the value
    int64_t bias; // the element of the bias
    double score;
    double slope;      // of the score, by q . k
    double kept;       // what dropout multiplies the probability by
    int64_t index = 0; // among all scores
  };

  /// `inputs`: the values of the operands from the query on, without those that are not given.
  AttentionScores(const AttentionForm& form, llvm::ArrayRef<const Tensor64*> inputs);
  /// The open places of row `r` of the query, keys in order, of which every `step`-th of a head is
  /// looked at; valid until the next call. What is rounded of a row is so whatever was before it.
  const std::vector<Place>& openPlaces(int64_t r, int64_t step = 1);
  /// What is computed of a place's score, moved as products round it; smallest numbers are `by` as
  /// large.
  double rounded(const Place& place, double value, double by = 1.0) const;
  /// log(sum exp(largest)), moved by rounding in fp32 on the way.
  double logarithm(double largest, double sum);
  /// The sum of products of `width` numbers, moved by rounding.
  double product(const double* a, const double* b, int64_t width);

 private:
  /// Rows [begin, end) of a sequence.
  struct Span {
    int64_t begin, end;
    int64_t size() const { return end - begin; }
  };
  /// A tensor whose sizes are those of the scores or 1, by index of an element of the scores.
  class Broadcast {
   public:
    Broadcast() = default;
    Broadcast(const Tensor64& tensor, llvm::ArrayRef<int64_t> scores);
    int64_t at(int64_t index) const;
    double operator()(int64_t index) const { return tensor_->data[at(index)]; }
    explicit operator bool() const { return tensor_; }

   private:
    const Tensor64* tensor_ = nullptr;
    llvm::SmallVector<int64_t> scores_, strides_;
  };

  /// The keys that row `i` of a head may see but for the mask.
  Span keysOf(int64_t i) const;

  const AttentionForm form_;
  const Tensor64 *query_, *key_, *queryStarts_ = nullptr, *keyStarts_ = nullptr;
  Broadcast bias_, mask_;
  DropoutRule rule_;
  std::optional<RandomNumbers> random_;
  AttentionForm::Noise noise_;
  uint64_t products_ = 0;
  std::vector<Place> places_;
};

} // namespace kiln::ir
