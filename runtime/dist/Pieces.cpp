// See Pieces.h.
#include "runtime/dist/Pieces.h"

#include <ATen/ATen.h>

namespace kiln::dist {

using at::Tensor;

Tensor flatOf(const Tensor& numbers, const Tensor& parameter) {
  Tensor laid = at::empty_like(parameter, numbers.options().device(parameter.device()));
  laid.copy_(numbers.view(parameter.sizes()));
  return laid.as_strided({laid.numel()}, {1});
}

std::pair<std::int64_t, std::int64_t> meeting(const Slot& slot, std::int64_t begin,
                                              std::int64_t count) {
  const std::int64_t from = std::max(begin, slot.offset),
                     to = std::min(begin + count, slot.offset + slot.tensor().numel());
  return {from, std::max(from, to)};
}

FlatWeights::FlatWeights(Bucket& bucket, Group& group) {
  const at::NoGradGuard constant;
  all = group.buffer(bucket.elements(), bucket.shard().scalar_type());
  const std::int64_t each = bucket.elements() / group.size(), begin = group.rank() * each;
  mine = all.slice(0, begin, begin + each);
  for (Slot* slot : bucket.slots()) {
    const Tensor& parameter = slot->tensor();
    const Tensor there = sharing(all, slot->offset, slot->view.sizes(), slot->view.strides());
    there.copy_(parameter);
    Tensor(parameter).set_data(there);
    const auto [from, to] = meeting(*slot, begin, each);
    if (from == to)
      continue;
    Piece piece{slot, from - slot->offset, to - from, {}, {}, {}};
    piece.weights = sharing(all, from, {piece.count}, {1});
    piece.master =
        at::isReducedFloatingType(all.scalar_type()) ? piece.weights.to(at::kFloat) : piece.weights;
    piece.gradient = sharing(bucket.shard(), from - begin, {piece.count}, {1});
    pieces.push_back(std::move(piece));
  }
}

} // namespace kiln::dist
