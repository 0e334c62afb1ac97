// See kiln/dist/place.h: starts ranks on this machine, passes signals on and output through.
#include "kiln/dist/place.h"

#include "runtime/dist/Fail.h"

#include <arpa/inet.h>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern char** environ;

namespace kiln::dist {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPassedOn[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
volatile std::sig_atomic_t arrived[NSIG];

/// Notes signals for a scope.
class Noting {
 public:
  Noting() {
    struct sigaction note{};
    note.sa_handler = [](int number) { arrived[number] = 1; };
    for (std::size_t i = 0; i < std::size(kPassedOn); ++i) {
      arrived[kPassedOn[i]] = 0;
      sigaction(kPassedOn[i], &note, &before[i]);
    }
  }
  ~Noting() {
    for (std::size_t i = 0; i < std::size(kPassedOn); ++i)
      sigaction(kPassedOn[i], &before[i], nullptr);
  }
  Noting(const Noting&) = delete;
  Noting& operator=(const Noting&) = delete;

 private:
  struct sigaction before[std::size(kPassedOn)];
};

[[noreturn]] void failHere(const char* what) {
  fail(ErrorKind::io, "launch: {}: {}", what, std::strerror(errno));
}

/// A file descriptor that programs started from here do not get.
struct Descriptor {
  int number = -1;
  Descriptor() = default;
  explicit Descriptor(int number) : number(number) {}
  Descriptor(Descriptor&& other) noexcept : number(std::exchange(other.number, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number, other.number);
    return *this;
  }
  ~Descriptor() { close(); }
  void close() {
    if (number >= 0)
      ::close(std::exchange(number, -1));
  }
};

/// Where rank 0 will listen: open before anybody is started, so that nobody else takes the port.
struct Listening {
  Descriptor socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  int port = 0;

  Listening() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (socket.number < 0 || bind(socket.number, any, length) != 0 ||
        listen(socket.number, SOMAXCONN) != 0 || getsockname(socket.number, any, &length) != 0)
      failHere("no port of this machine can be opened");
    port = ntohs(address.sin_port);
  }
};

/// What a rank writes, line by line with its number in front.
class Lines {
 public:
  Lines(Descriptor from, int to, int rank)
      : from(std::move(from)), to(to), mark(fmt::format("[rank {}] ", rank)) {}

  int descriptor() const { return from.number; }
  void pass() {
    char block[4096];
    ssize_t count;
    while ((count = read(from.number, block, sizeof(block))) > 0) {
      held.append(block, std::size_t(count));
      for (std::size_t end; (end = held.find('\n')) != std::string::npos; held.erase(0, end + 1))
        show(held.substr(0, end + 1));
    }
    if (count == 0)
      close();
  }
  void close() {
    if (!held.empty())
      show(std::exchange(held, "") + '\n');
    from.close();
  }

 private:
  void show(const std::string& line) {
    const std::string text = mark + line;
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t count = write(to, text.data() + done, text.size() - done);
      if (count < 0 && errno != EINTR)
        return; // nobody reads any more
      done += count > 0 ? std::size_t(count) : 0;
    }
  }

  Descriptor from;
  int to;
  std::string mark, held;
};

struct Rank {
  pid_t process = -1;
  std::optional<int> status{}; // waitpid()'s
  bool wasTold = false;        // to end, by us

  bool failed() const {
    return status && !wasTold && !(WIFEXITED(*status) && WEXITSTATUS(*status) == 0);
  }
};

std::vector<std::string> environmentOf(int rank, int size, const Listening& listening) {
  const int threads = std::max(1, int(std::thread::hardware_concurrency()) / size);
  std::vector<std::pair<std::string, std::string>> own = {
      {"RANK", std::to_string(rank)},
      {"WORLD_SIZE", std::to_string(size)},
      {"LOCAL_RANK", std::to_string(rank)},
      {"LOCAL_WORLD_SIZE", std::to_string(size)},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", std::to_string(listening.port)},
      {"KILN_LISTEN_FD", rank == 0 ? std::to_string(listening.socket.number) : ""}};
  if (!std::getenv("OMP_NUM_THREADS"))
    own.emplace_back("OMP_NUM_THREADS", std::to_string(threads));
  std::vector<std::string> all;
  for (char** one = environ; *one; ++one)
    if (std::none_of(own.begin(), own.end(), [&](const auto& o) {
          return std::string_view(*one).starts_with(o.first + '=');
        }))
      all.emplace_back(*one);
  for (const auto& [name, value] : own)
    all.push_back(name + '=' + value);
  return all;
}

std::vector<char*> pointersTo(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts)
    pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

class Ranks {
 public:
  Ranks(int argc, const char* const* argv, const LaunchOptions& options)
      : arguments(argv, argv + argc), options(options) {}

  void start() {
    const Listening listening;
    for (int rank = 0; rank < options.ranks; ++rank)
      startOne(rank, listening);
  }

  int wait() {
    while (running()) {
      passOutput();
      passSignals();
      collect();
      endOthers();
    }
    passOutput();
    for (Lines& one : lines)
      one.close();
    return outcome();
  }

 private:
  bool running() const {
    return std::any_of(ranks.begin(), ranks.end(), [](const Rank& r) { return !r.status; });
  }

  void startOne(int rank, const Listening& listening) {
    int out[2] = {-1, -1}, error[2] = {-1, -1};
    if (rank > 0 && (pipe2(out, O_CLOEXEC) != 0 || pipe2(error, O_CLOEXEC) != 0))
      failHere("no pipe can be opened");
    const auto environment = environmentOf(rank, options.ranks, listening);
    const auto variables = pointersTo(environment), words = pointersTo(arguments);
    const pid_t parent = getpid(), child = fork();
    if (child < 0) {
      endAll(SIGKILL);
      failHere("no process can be started");
    }
    if (child == 0) { // only what is safe between fork and exec
      setpgid(0, 0);  // a terminal's Ctrl-C comes once, from the launcher
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != parent)
        _exit(1);
      if (rank == 0)
        fcntl(listening.socket.number, F_SETFD, 0);
      else {
        dup2(out[1], STDOUT_FILENO);
        dup2(error[1], STDERR_FILENO);
        dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
      }
      execve("/proc/self/exe", words.data(), variables.data());
      _exit(127);
    }
    setpgid(child, child);
    ranks.push_back({.process = child});
    if (rank == 0)
      return;
    for (auto [ends, to] : {std::pair(out, STDOUT_FILENO), std::pair(error, STDERR_FILENO)}) {
      close(ends[1]);
      fcntl(ends[0], F_SETFL, O_NONBLOCK);
      lines.emplace_back(Descriptor(ends[0]), to, rank);
    }
  }

  void passOutput() {
    std::vector<pollfd> all;
    for (const Lines& one : lines)
      all.push_back({one.descriptor(), POLLIN, 0}); // closed ones are -1, which poll() skips
    poll(all.data(), all.size(), 50);
    for (std::size_t i = 0; i < lines.size(); ++i)
      if (all[i].revents != 0)
        lines[i].pass();
  }

  void passSignals() {
    for (int number : kPassedOn)
      if (arrived[number]) {
        arrived[number] = 0;
        for (const Rank& rank : ranks)
          if (!rank.status)
            kill(rank.process, number);
      }
  }

  void collect() {
    for (Rank& rank : ranks) {
      int status = 0;
      if (!rank.status && waitpid(rank.process, &status, WNOHANG) == rank.process)
        rank.status = status;
    }
  }

  /// A rank whose peer has died fails by that: whoever died is given a moment to be seen first.
  void endOthers() {
    if (!failedAt) {
      if (std::any_of(ranks.begin(), ranks.end(), [](const Rank& r) { return r.failed(); }))
        failedAt = Clock::now();
      return;
    }
    const auto since = Clock::now() - *failedAt;
    if (since > std::chrono::milliseconds(300) && !told) {
      told = true;
      endAll(SIGTERM);
    } else if (since > options.grace)
      endAll(SIGKILL);
  }

  void endAll(int number) {
    for (Rank& rank : ranks)
      if (!rank.status) {
        rank.wasTold = true;
        kill(-rank.process, number); // and what it has started
      }
  }

  int outcome() const {
    const Rank* worst = nullptr;
    for (const Rank& rank : ranks)
      if (rank.failed() && (!worst || (WIFSIGNALED(*rank.status) && !WIFSIGNALED(*worst->status))))
        worst = &rank;
    if (!worst)
      return 0;
    const bool bySignal = WIFSIGNALED(*worst->status);
    const int number = bySignal ? WTERMSIG(*worst->status) : WEXITSTATUS(*worst->status);
    fmt::print(stderr, "rank {} of {} {} {}; the others were ended\n", worst - ranks.data(),
               ranks.size(), bySignal ? "was ended by signal" : "ended with exit code", number);
    return bySignal ? 128 + number : number;
  }

  std::vector<std::string> arguments;
  LaunchOptions options;
  std::vector<Rank> ranks;
  std::vector<Lines> lines;
  std::optional<Clock::time_point> failedAt;
  bool told = false;
};

} // namespace

int launch(int argc, const char* const* argv, const LaunchOptions& options) {
  if (options.ranks < 1 || options.ranks > 1024)
    fail(ErrorKind::input, "launch: {} ranks; allowed are 1 to 1024 on a machine", options.ranks);
  const Noting noting;
  Ranks ranks(argc, argv, options);
  ranks.start();
  return ranks.wait();
}

} // namespace kiln::dist
