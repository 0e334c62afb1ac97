// kiln::dist::DataParallel: replicas of a module, one a rank, whose gradients are the mean of all
// ranks' behind each backward, sent while the backward still runs.
//
//   kiln::dist::DataParallel parallel(*model, group);
//   loss(model(batchOf(group->rank()))).backward();   // gradients are the mean when it returns
//   optimizer.step();                                  // any optimizer, the same on all ranks
//
// Gradients are gathered in buckets, in the order in which the first backward brought them (rank
// 0's order); then a parameter's grad() is a view of its bucket. A loss that is the mean over a
// rank's batch gives what one process would get for all batches joined, but for the order of sums.
// For the same number of ranks, buckets and order results repeat bit by bit; all ranks have the
// same bits.
//
// A parameter without a gradient on one rank counts as zeros there; without one on all ranks it has
// none. A rank that misses one reads a flag from the device behind the backward, others do not.
// Frozen parameters are sent at the start only. Tied ones are one. Second derivatives, sparse
// gradients and parameters on several devices are refused or not taken.
//
// Method: Li et al. 2020, "PyTorch Distributed"; bf16 on the wire with sums in fp32 as Megatron-LM.
#pragma once

#include "kiln/dist/group.h"

#include <optional>

namespace torch::nn {
class Module;
}

namespace kiln::dist {

/// When and in how many pieces gradients are sent. The first three wait for the backward's end.
enum class Mode { perParameter, flat, bucketed, overlapped };

struct DataParallelOptions {
  Mode mode = Mode::overlapped;
  /// None: a sixteenth of all gradients, but 25 MiB at least and 100 at most; at the end half of
  /// what is left, down to 4 MiB.
  std::optional<std::int64_t> bucketBytes{};
  std::int64_t firstBucketBytes = 1 << 20; // small: so that sending begins early
  /// bf16 or fp16: fp32 gradients are sent as such, summed in fp32 in the order of ranks, and the
  /// mean is rounded once more on its way back.
  std::optional<at::ScalarType> wire{};
  bool deferred = false; // backwards send nothing, syncGrad() does
  bool sharded = false;  // for a ShardedOptimizer, which then has the gradients
};

struct NamedParameter {
  std::string name;
  at::Tensor tensor;
};

class KILN_API DataParallel {
 public:
  /// All parameters and buffers become rank 0's. Throws Error(input) on all ranks, with the name
  /// and the rank, where they differ in name, shape or dtype, or the options do.
  DataParallel(torch::nn::Module& module, std::shared_ptr<Group> group,
               const DataParallelOptions& options = {});
  /// Leaves of one's own choice; those that require no gradient are sent at the start only.
  DataParallel(const std::vector<NamedParameter>& parameters, std::shared_ptr<Group> group,
               const DataParallelOptions& options = {});
  ~DataParallel(); // gradients stay as they are
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// For a scope in which backwards add to this rank's gradients and send nothing; the next one
  /// outside sends the sum.
  class KILN_API NoSync {
   public:
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    friend class DataParallel;
    explicit NoSync(DataParallel& of);
    DataParallel& of;
    bool before;
  };
  [[nodiscard]] NoSync noSync() { return NoSync(*this); }

  /// Makes gradients the mean of all ranks' now: with `deferred`, or behind backwards in noSync().
  void syncGrad();

  /// Names by bucket, in the order of sending; empty before the first backward.
  std::vector<std::vector<std::string>> buckets() const;
  const std::shared_ptr<Group>& group() const;
  const DataParallelOptions& options() const;

  struct Impl;

 private:
  friend class ShardedOptimizer;
  std::shared_ptr<Impl> impl; // hooks of parameters know it
};

} // namespace kiln::dist
