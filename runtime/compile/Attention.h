// Attention as models write it out, softmax(q k^T scale + bias, masked) v with a dropout of the
// probabilities between: recognised on a tape, and computed as the one operation that it is. The
// formula's spellings are known to Match.cpp, and those of products to Products.cpp.
#pragma once

#include "runtime/compile/Tape.h"

namespace kiln::compiled {

/// A tensor of the tape with its dimensions in another order; none: as they are.
struct Ordered {
  Slot slot = noSlot;
  std::vector<std::int64_t> order;

  at::Tensor of(const at::Tensor& tensor) const;
  at::DimVector sizes(const Tape& tape) const;
};

/// What is added to a product, times a factor.
struct Added {
  Slot slot;
  double factor;
};

/// A batched product of two tensors [..., m, c] and [..., n, c]: [..., m, n], then in an order.
struct Product {
  Ordered a, b;
  std::vector<std::int64_t> order;
  at::DimVector leading{}; // of the result, before it is put in order
  double scale = 1;
  std::optional<Added> added{};
};

/// Of an operation, if it is one; `left`: the operand that has to be `a`, in its own order. Without
/// one, the result is in no other order.
std::optional<Product> productOf(const Tape& tape, const Op& op, Slot left);

/// Operations that make one attention.
struct Attention {
  struct Mask {
    Slot slot;
    bool isSeen; // whether true is a key that is seen, or one that is hidden
  };

  std::vector<unsigned> ops;  // in the order of the tape; the last makes the result
  Ordered query, key, value;  // [..., s, d], [..., t, d], [..., t, dv]
  at::DimVector leading;      // of the product of query and key
  at::DimVector valueLeading; // of the other one
  at::DimVector scores;       // the shape that biases and masks are broadcast to
  std::vector<Added> biases;
  std::vector<Mask> masks;
  std::optional<double> fill;      // what hidden scores are where that is a number
  std::vector<std::int64_t> order; // of the result's dimensions
  double scale = 1, p = 0;
  std::optional<unsigned> dropout; // the operation
  bool isAnyLayout = false;        // of the result: none of its readers would fail for it
  Slot result = noSlot;

  std::vector<Slot> inputs() const;
  std::string text(const Tape& tape) const; // "attention: matmul, mul, softmax, matmul"
  std::int64_t bytesSaved(const Tape& tape) const;
  /// The result. Throws Error where it is not what attention takes.
  at::Tensor run(const Tape& tape, const std::function<at::Tensor(Slot)>& valueOf) const;
};

struct Attentions {
  std::vector<Attention> found;
  std::map<unsigned, std::string> whyNot; // of a softmax between two products
};

/// `dead`: operations that nobody needs (Tape::dead).
Attentions attentionsOf(const Tape& tape, const std::vector<bool>& dead);

} // namespace kiln::compiled
