// The processes that train together, and what they do together: c10d's Gloo for tensors of CPUs,
// its NCCL for those of GPUs. Nothing waits for ever: where a rank ends, hangs, or does something
// else than the others, the others throw within the time limit, and what is in flight is aborted.
//
//   auto group = kiln::dist::Group::start(kiln::dist::Place::fromEnvironment(), {.device =
//   device}); group->allReduce(tensor).wait();
//
// All ranks must ask for the same in the same order. Each rank asks from one thread at a time.
// Errors are kiln::Error(unavailable): "rank 1 of 4: all-reduce of 4096 bytes at step 7 has not
// ended within 300 s; no answer from rank 2; ...".
#pragma once

#include "kiln/dist/place.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

namespace kiln::dist {

struct GroupOptions {
  at::Device device = at::kCPU; // of the tensors
  /// Of each operation, and of the start: longer than a rank may be busy alone, such as with a
  /// checkpoint.
  std::chrono::milliseconds limit{300'000};
  /// Ranks meet by this file of a file system that all of them see, instead of at place.host; new
  /// for each start. Empty: by TCP.
  std::string file{};
  /// GPUs of one machine: sums of up to so many bytes may go through memory that all ranks see,
  /// instead of NCCL; for which sizes is measured at the start. 0: none do.
  std::int64_t peerBytes = 0;
  bool peersAlways = false; // without measuring
  /// GPUs of one machine: sums and gathers of Group::buffer()s go by the GPUs' copy engines and
  /// memory that ranks share, not by NCCL's kernels, which take multiprocessors from what runs
  /// beside them. None: where all ranks have GPUs of this machine that reach each other's memory,
  /// buffers of 1 MiB and more.
  std::optional<bool> copyEngines = false;
};

class Group;

/// What has begun.
class KILN_API Pending {
 public:
  Pending(); // of nothing
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  ~Pending(); // waits, without a word about errors; not while an exception passes

  /// CPU: until it is done. GPU: the current stream will. Throws Error(unavailable).
  void wait();
  explicit operator bool() const { return impl != nullptr; }

 private:
  friend class Group;
  struct Impl;
  explicit Pending(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

enum class Sum { plain, largest }; // how elements are brought together
/// Where a GPU does it: beside what the current stream gets until wait(), or, for whoever waits at
/// once, in that stream, which spares two events.
enum class Order { beside, inStream };

class KILN_API Group {
 public:
  /// Returns when all ranks have come. Throws Error(unavailable) if they do not within the limit,
  /// and Error(input) for a device that this LibTorch has no backend for.
  static std::shared_ptr<Group> start(const Place& place, const GroupOptions& options = {});
  /// Of this process alone, at which nothing has to be started.
  static std::shared_ptr<Group> alone(at::Device device = at::kCPU);
  ~Group();

  const Place& place() const;
  int rank() const { return place().rank; }
  int size() const { return place().size; }
  at::Device device() const;
  std::chrono::milliseconds limit() const;
  /// Up to how many bytes sums go through memory that ranks share.
  std::int64_t peerBytes() const;

  /// Contiguous tensors on device(). Until wait() nobody else may use them.
  Pending allReduce(const at::Tensor& tensor, Sum sum = Sum::plain, Order order = Order::beside);
  Pending broadcast(const at::Tensor& tensor, int from = 0);
  /// `in` has size() times the elements of `out`, which may be its rank-th part. Floating point on
  /// CPUs: added up in the order of ranks, in fp32 at least.
  Pending reduceScatter(const at::Tensor& out, const at::Tensor& in);
  /// `out` has size() times the elements of `in`, which may be its rank-th part.
  Pending allGather(const at::Tensor& out, const at::Tensor& in);
  /// The p-th of size() equal parts of `in` goes to rank p; that of rank p comes to the p-th part
  /// of `out`. Of any dtype.
  Pending allToAll(const at::Tensor& out, const at::Tensor& in);

  /// A contiguous tensor for collectives of it as a whole, by all ranks in the same order: of what
  /// goes by copyEngines, and for fp32, bf16 and fp16, it is memory that ranks share and lives as
  /// long as the group; its numbers are zeros.
  at::Tensor buffer(std::int64_t elements, at::ScalarType dtype);
  bool goesByCopyEngines(const at::Tensor& buffer) const;
  /// Contiguous elements that stand for those of a buffer from `offset` on.
  struct Part {
    at::Tensor elements;
    std::int64_t offset;
  };
  /// Of a buffer that goes by copy engines and has a multiple of size() elements: scale times the
  /// sum over ranks, in their order, in fp32, of what `parts` bring; elements without a part are
  /// left as they are; without parts the buffer brings itself. `mine`: only this rank's equal part
  /// is wanted, there. Parts may lie in the buffer, and are not used by others until wait().
  Pending sumOfParts(const at::Tensor& buffer, const std::vector<Part>& parts, double scale,
                     const at::Tensor& mine = {});

  /// Of numbers of the host, which all ranks get; they wait for each other, devices do not.
  double sum(double value);
  double largest(double value);
  std::vector<std::string> gather(const std::string& text); // by rank
  void barrier();
  /// Whether any rank said so in the call before: what costs nothing beside a training step, since
  /// nobody waits for an answer that is under way.
  bool agreed(bool value);

  /// Named by errors.
  void setStep(std::int64_t step);
  /// Throws what has gone wrong on a GPU since, where wait() could not. Cheap.
  void check();
  /// Ends what is in flight; what begins later throws.
  void abort();

 private:
  struct Impl;
  explicit Group(std::unique_ptr<Impl> impl);
  void shareMemory();
  friend class Pending;
  std::unique_ptr<Impl> impl;
};

} // namespace kiln::dist
