// A block under FullyShard: its parameters in one buffer whose memory comes and goes, this rank's
// part of them in fp32, and the bucket of its gradients.
#pragma once

#include "runtime/dist/Bucket.h"

#include <deque>

namespace kiln::dist {

class Unit {
 public:
  /// Moves the parameters in; from then on they are empty.
  Unit(const std::vector<NamedParameter>& parameters, std::shared_ptr<Group> group,
       std::optional<at::ScalarType> compute);

  /// Begins to bring the parameters; nothing if they are here or on their way.
  void gather();
  /// Behind this they are here.
  void wait();
  void free();

  /// Begins the mean of gradients that have come; take() ends it and adds this rank's part to
  /// grad() of its pieces.
  void send();
  void take();
  bool isSent() const { return sent; }

  /// A piece of a parameter in this rank's part, under NAME@FIRST: a leaf.
  const std::vector<NamedParameter>& pieces() const { return parts; }
  std::vector<NamedParameter> whole();
  void load(const NamedParameter& parameter);
  const std::deque<Slot>& slots() const { return all; }
  std::size_t waitsFor = 0; // gradients of this backward

 private:
  /// Of a parameter what lies in this rank's part: elements of the part, and the first one's number
  /// in the parameter. The part is empty where nothing does.
  struct Share {
    at::Tensor part;
    std::int64_t first;
  };
  Share shareOf(const Slot& slot) const;

  std::shared_ptr<Group> group;
  std::deque<Slot> all;
  std::unique_ptr<Bucket> gradients;
  at::Tensor full, mine;       // in the dtype of computing; mine: this rank's part, for the gather
  at::Tensor master, gradient; // this rank's part, fp32
  std::vector<NamedParameter> parts;
  Pending pending;
  bool isHere = true, sent = false;
};

} // namespace kiln::dist
