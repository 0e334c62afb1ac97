// Gradients that travel together: a buffer, of which the parameters' gradients are views, and the
// collective that makes it the mean of all ranks' or, sharded, the mean of this rank's part.
//
// Elements of the buffer: the parameters' one behind the other, then a flag for each, which is
// above 0 once some rank had a gradient for it, then zeros up to a multiple of the ranks.
#pragma once

#include "kiln/bucket_ops.h"
#include "kiln/dist/data_parallel.h"

#include <c10/core/Stream.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace kiln::dist {

/// One parameter.
struct Slot {
  NamedParameter parameter;
  std::size_t bucket = 0;
  std::int64_t offset = 0; // elements
  at::Tensor view{};       // of the bucket, laid out as the parameter
  bool missing = false;    // this rank had no gradient

  const at::Tensor& tensor() const { return parameter.tensor; }
};

/// Elements of a buffer, from an offset on, that are no view of it to autograd: optimizers detach
/// gradients in place, which views refuse.
at::Tensor sharing(const at::Tensor& buffer, std::int64_t offset, at::IntArrayRef sizes,
                   at::IntArrayRef strides);

/// Memory of a buffer that comes and goes, while tensors that share it stay.
void takeMemory(const at::Tensor& buffer);
void giveMemory(const at::Tensor& buffer);

class Bucket {
 public:
  /// Lays out the slots, all of one dtype and device.
  Bucket(std::vector<Slot*> slots, std::shared_ptr<Group> group, const DataParallelOptions& options,
         std::optional<at::ScalarType> sums = {}); // else the slots' own

  /// Takes the gradients in, in the dtype in which they travel, and divided by the number of ranks
  /// unless the sum does that; or says where they lie.
  void fill();
  /// Sends it.
  void start();
  /// Behind this the buffer, or the shard, is the mean.
  void finish();
  /// Gives views to the parameters. Sharded: none.
  void release();
  /// The buffer's memory, until it is filled again.
  void freeMemory();

  const std::vector<Slot*>& slots() const { return all; }
  const at::Tensor& shard() const { return part; } // sharded: this rank's part of the mean
  std::int64_t elements() const { return buffer.numel(); }
  std::size_t waitsFor = 0; // gradients of this backward that have not come
  bool isStale = false;     // sharded: other ranks have newer parameters, which are not here

 private:
  Group::Part partOf(const Slot& slot) const;
  void startWire();
  void finishWire();
  bool isUsedAnywhere(std::size_t slot);
  void flagUsed(const at::Tensor& flags);

  std::vector<Slot*> all;
  std::shared_ptr<Group> group;
  DataParallelOptions options;
  std::int64_t flags = 0; // where they begin
  at::Tensor buffer, part;
  std::vector<Group::Part>
      parts;       // of the buffer, where they go by copy engines, from where they lie
  at::Tensor used; // its flags then
  bool usedIsOnes = false;
  at::Tensor sent, received;               // of another dtype; undefined: the buffer travels itself
  std::vector<at::Tensor> sentViews;       // of `sent`, by slot
  std::optional<optim::ScaledCopy> copyIn; // of gradients, divided by the number of ranks
  optim::OrderedSum sumOfRanks;
  Pending pending;
  std::optional<c10::Stream> side;
  c10::intrusive_ptr<c10d::Work> onSide; // what travels there
};

} // namespace kiln::dist
