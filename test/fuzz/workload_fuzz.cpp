// Any text given as a workload file: entries and errors with line numbers, never a crash, and
// every entry within what the format allows.
#include "kiln/workload.h"

#include <algorithm>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  auto workload = kiln::parseWorkload(text, "folder/fuzz.txt");
  auto lines = std::ranges::count(text, '\n') + 1;
  for (const kiln::WorkloadEntry& entry : workload.entries) {
    bool sizes = std::ranges::all_of(entry.shape, [](auto n) { return n >= -1; });
    bool share = entry.share >= 0 && entry.share <= 1;
    if (!sizes || !share || entry.line < 1 || entry.line > lines || entry.what.empty())
      std::abort();
  }
  for (const std::string& error : workload.errors)
    if (!error.starts_with("folder/fuzz.txt:"))
      std::abort();
  return 0;
}
