// See Signals.h.
#include "models/common/Signals.h"

#include <csignal>

namespace kiln::models {

namespace {

volatile std::sig_atomic_t asked = 0;
constexpr int numbers[] = {SIGINT, SIGTERM};

} // namespace

Signals::Signals() {
  asked = 0;
  for (int i = 0; i < 2; ++i)
    before[i] = std::signal(numbers[i], [](int number) {
      asked = 1;
      std::signal(number, SIG_DFL);
    });
}

Signals::~Signals() {
  for (int i = 0; i < 2; ++i)
    std::signal(numbers[i], before[i]);
}

bool Signals::stop() const {
  return asked != 0;
}

} // namespace kiln::models
