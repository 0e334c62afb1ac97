// See Log.h.
#include "runtime/Log.h"

#include "kiln/kiln.h"

#include <atomic>
#include <cstdio>
#include <mutex>

namespace kiln::runtime {

static std::atomic<std::FILE*> file = nullptr;

void setLog(const std::string& where) {
  static std::mutex mutex;
  static auto* opened = new std::string; // what `file` is; files stay open, others may write
  std::lock_guard held(mutex);
  if (where == *opened)
    return;
  std::FILE* next = where.empty()       ? nullptr
                    : where == "stderr" ? stderr
                                        : std::fopen(where.c_str(), "a");
  if (!next && !where.empty())
    throw Error(ErrorKind::io, fmt::format("cannot append to the log '{}'; name a file in a folder "
                                           "that may be written, or stderr",
                                           where));
  file = next;
  *opened = where;
}

bool isLogging() {
  return file.load(std::memory_order_relaxed) != nullptr;
}

void writeLog(const std::string& line) {
  if (std::FILE* to = file) {
    fmt::print(to, "kiln: {}\n", line);
    std::fflush(to);
  }
}

} // namespace kiln::runtime
