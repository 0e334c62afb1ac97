// A run that is told to end leaves a checkpoint first.
#pragma once

namespace kiln::models {

/// SIGINT and SIGTERM are noted, for a scope; a second one ends the process. One at a time.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// Whether one has come.
  bool stop() const;

 private:
  void (*before[2])(int);
};

} // namespace kiln::models
