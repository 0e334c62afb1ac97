// Linux's /proc; see Process.h.
#include "autotune/Process.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <optional>
#include <random>
#include <sstream>
#include <unistd.h>

namespace kiln::autotune {
namespace {

/// Of a name; the order in which they are written.
enum Part : unsigned { ofHost, ofNumber, ofBegin, ofBoot, ofNamespace, ofRandom, parts };

std::string bootName() {
  std::string name;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> name;
  return name;
}

/// Of "pid:[4026531836]" the digits.
std::string namespaceName() {
  std::error_code none;
  const std::string text = std::filesystem::read_symlink("/proc/self/ns/pid", none).string();
  const std::size_t begin = text.find('[') + 1, end = text.find(']');
  return end == std::string::npos || begin == 0 ? "" : text.substr(begin, end - begin);
}

struct Seen {
  char state = 0;
  std::string begin; // clock ticks from the boot
};

/// Nothing where /proc does not show it, as to other users.
std::optional<Seen> seen(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::size_t name = text.rfind(')'); // the command's name may hold anything
  if (name == std::string::npos)
    return std::nullopt;
  std::istringstream rest(text.substr(name + 1));
  constexpr int between = 18; // fields 4 to 21
  Seen found;
  rest >> found.state;
  std::string word;
  for (int i = 0; i < between; ++i)
    rest >> word;
  rest >> found.begin;
  return found.begin.empty() ? std::nullopt : std::optional(found);
}

} // namespace

std::string nameOfThisProcess() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const auto self = seen(::getpid());
  return fmt::format("{}:{}:{}:{}:{}:{:08x}", host.data(), ::getpid(), self ? self->begin : "",
                     bootName(), namespaceName(), std::random_device()());
}

bool hasEnded(std::string_view process) {
  std::array<std::string_view, parts> part;
  for (unsigned i = 0; i < parts; ++i) {
    const std::size_t end = process.find(':');
    if ((end == std::string_view::npos) != (i + 1 == parts))
      return false;
    part[i] = process.substr(0, end);
    process.remove_prefix(i + 1 == parts ? process.size() : end + 1);
  }
  pid_t number = 0;
  const std::string_view digits = part[ofNumber];
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (number <= 0 || part[ofBegin].empty() || part[ofBoot].empty() || part[ofNamespace].empty() ||
      part[ofBoot] != bootName() || part[ofNamespace] != namespaceName())
    return false;
  if (::kill(number, 0) != 0 && errno == ESRCH)
    return true;
  const auto now = seen(number);
  return now && (now->begin != part[ofBegin] || now->state == 'Z' || now->state == 'X');
}

} // namespace kiln::autotune
