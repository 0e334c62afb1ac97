// Sums of buffers by ranks of one machine, moved by the GPUs' copy engines: no multiprocessor waits
// for a link, as NCCL's kernels do, so that a backward beside them keeps all of them. Each rank
// sends every other that one's part of its buffer, sums its own part over ranks, in their order, by
// Kiln's kernel over lists, and sends the sum to all (reduce-scatter, then all-gather, both
// direct).
//
// Barriers are kernels of one block. Buffers pass by two lanes, each with a stream and memory to
// receive in of its own, so that one moves while the other adds.
#pragma once

#include "kiln/bucket_ops.h"
#include "runtime/dist/Enqueued.h"
#include "runtime/dist/SharedMemory.h"

#include <chrono>
#include <functional>
#include <map>

namespace kiln::dist {

class CopyEngines {
 public:
  using Part = Group::Part;
  using Work = c10::intrusive_ptr<c10d::Work>;
  explicit CopyEngines(std::shared_ptr<SharedMemory> memory) : memory(std::move(memory)) {}

  static bool takes(at::ScalarType dtype) {
    return dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf;
  }
  /// A buffer; by all ranks at once, in the same order. It lives as long as this.
  at::Tensor empty(std::int64_t elements, at::ScalarType dtype);
  bool has(const at::Tensor& buffer) const;

  /// The sum over ranks times `scale`, of what `parts` bring and, with none, of the buffer itself:
  /// its equal parts, one a rank, or only this rank's, into `mine`.
  Work sum(const at::Tensor& buffer, const std::vector<Part>& parts, double scale,
           const at::Tensor& mine);
  /// Each rank's equal part of the buffer to all.
  Work gather(const at::Tensor& buffer);
  /// What is enqueued ends, whatever it computes, without peers that may never come, and so does
  /// what others have enqueued that waits for it; or `most` has passed. From any thread.
  void abort(std::chrono::milliseconds most, const std::function<bool()>& haveOthersEnded);

 private:
  struct Buffer {
    SharedMemory::Block block;
    std::vector<at::Tensor> ofRanks;            // the whole, by rank
    std::map<double, optim::OrderedSum> sums{}; // by scale
  };
  struct Lane {
    c10::Stream stream;
    SharedMemory::Block received;
    std::int64_t bytes = 0;
    std::map<at::ScalarType, std::vector<at::Tensor>> views{}; // of `received`, by rank
  };
  Lane& nextLane();
  void grow(std::int64_t bytes);
  const std::vector<at::Tensor>& received(Lane& lane, at::ScalarType dtype) const;
  void send(Lane& lane, const Buffer& of, const std::vector<Part>& parts) const;
  void add(Lane& lane, Buffer& of, const std::vector<Part>& parts, double scale,
           const at::Tensor& mine) const;
  void spread(const Buffer& of) const;
  Buffer& known(const at::Tensor& buffer);

  std::shared_ptr<SharedMemory> memory;
  std::map<const void*, Buffer> buffers; // by where they begin
  std::vector<Lane> lanes;
  std::size_t next = 0;
};

} // namespace kiln::dist
