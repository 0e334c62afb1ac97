// The supervisor's side of a worker; see Worker.h.
#include "autotune/measure/Worker.h"

#include "codegen/backend/Fail.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace kiln::autotune {
namespace {

constexpr std::size_t kLogTail = 4096;

/// Both ends close by themselves in any process that is started, so that no worker holds another's.
struct Ends {
  int socket[2] = {-1, -1}, log[2] = {-1, -1};
  Ends() {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socket) != 0 ||
        ::pipe2(log, O_CLOEXEC) != 0)
      fail(ErrorKind::unavailable,
           "no pipe to a worker process: {}; close files or raise the "
           "limit on open files",
           std::strerror(errno));
    ::fcntl(log[0], F_SETFL, O_NONBLOCK);
    timeval patience{10, 0}; // a message that has begun must go on
    ::setsockopt(socket[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
};

pid_t spawn(const std::vector<std::string>& command, const Ends& ends) {
  std::vector<char*> arguments;
  for (const std::string& word : command)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, ends.log[1], 1);
  ::posix_spawn_file_actions_adddup2(&actions, ends.log[1], 2);
  ::posix_spawn_file_actions_adddup2(&actions, ends.socket[1], kWorkerSocket);
  pid_t process = 0;
  int error = ::posix_spawn(&process, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends.socket[1]);
  ::close(ends.log[1]);
  if (error != 0)
    fail(ErrorKind::unavailable, "cannot start the worker '{}': {}", command[0],
         std::strerror(error));
  return process;
}

std::string describe(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("ended by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

} // namespace

Worker::Worker(WorkerOptions given) : options(std::move(given)) {}

Worker::~Worker() {
  if (process)
    end();
}

void Worker::start() {
  Ends ends;
  socket = ends.socket[0];
  logPipe = ends.log[0];
  log.clear();
  loaded.clear();
  ++startCount;
  try {
    process = spawn(options.command, ends);
    send(socket, {{{"call", "hello"}}, {}});
    answer(options.start);
    if (task) {
      send(socket, {{{"call", "begin"}, {"task", toJson(*task)}}, {}});
      answer(options.start);
    }
  } catch (const Lost& lost) { // before any candidate was there to blame
    fail(ErrorKind::unavailable, "the worker '{}' does not start: {}", options.command[0],
         lost.what());
  } catch (const Error&) {
    end();
    throw;
  }
}

int Worker::end() {
  int status = 0;
  if (process) {
    ::kill(process, SIGKILL);
    while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
  }
  readLog();
  for (int* descriptor : {&socket, &logPipe})
    ::close(std::exchange(*descriptor, -1));
  process = 0;
  return status;
}

void Worker::died() {
  // It may have closed its socket a moment before its end.
  int status = 0;
  for (int waited = 0; waited < 100; ++waited) {
    if (::waitpid(process, &status, WNOHANG) == process) {
      process = 0;
      break;
    }
    ::usleep(10'000);
  }
  if (process)
    status = end();
  else
    end();
  throw Lost(FailureKind::crash, fmt::format("the worker {}\n{}", describe(status), log));
}

void Worker::readLog() {
  char buffer[kLogTail];
  for (ssize_t got; (got = ::read(logPipe, buffer, sizeof buffer)) > 0;)
    log.append(buffer, static_cast<std::size_t>(got));
  if (log.size() > kLogTail)
    log.erase(0, log.size() - kLogTail);
}

Message Worker::answer(Milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  pollfd waits[2] = {{socket, POLLIN, 0}, {logPipe, POLLIN, 0}};
  while (true) {
    auto left =
        std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      end();
      throw Lost(FailureKind::hang, fmt::format("no answer within {} ms\n{}", limit.count(), log));
    }
    if (::poll(waits, 2, static_cast<int>(left.count())) < 0 && errno != EINTR)
      fail(ErrorKind::io, "waiting for a worker: {}", std::strerror(errno));
    if (waits[1].revents & POLLIN)
      readLog();
    else if (waits[1].revents)
      waits[1].fd = -1; // closed: the socket will tell
    if (waits[0].revents == 0)
      continue;
    std::optional<Message> message = receive(socket);
    if (!message)
      died();
    if (message->json.contains("lost")) {
      const Json& lost = message->json.at("lost");
      FailureKind kind = parseFailureKind(lost.at("kind").get<std::string>());
      std::string text = lost.at("text");
      end();
      throw Lost(kind, text + (log.empty() ? "" : "\n" + log));
    }
    if (message->json.contains("error")) {
      const Json& error = message->json.at("error");
      throw Error(static_cast<ErrorKind>(error.at("kind").get<int>()), error.at("text"));
    }
    return std::move(*message);
  }
}

Message Worker::call(Message request, Milliseconds limit) {
  if (!send(socket, request))
    died();
  return answer(limit);
}

/// Equal cubins may be launched in several ways: the plan is part of the name.
std::string Worker::load(const Artifact& artifact) {
  std::string name = artifact.sha256 + artifact.plan;
  if (loaded.contains(name))
    return name;
  Message message = toMessage(artifact);
  message.json["call"] = "load";
  message.json["name"] = name;
  call(std::move(message), options.start);
  loaded.insert(name);
  return name;
}

void Worker::begin(const Task& next) {
  task = next;
  loaded.clear();
  preparing = {};
  try {
    if (process) {
      call({{{"call", "begin"}, {"task", toJson(next)}}, {}}, options.start);
      return;
    }
  } catch (const Lost&) { // it was ended from outside: no kernel runs here
  }
  start();
}

Compiled Worker::compile(const Proposal& proposal) {
  if (!process)
    start();
  return compiledOf(call({{{"call", "compile"},
                           {"schedule", proposal.schedule},
                           {"microseconds", proposal.microseconds}},
                          {}},
                         options.compile));
}

void Worker::prepare(const Artifact& artifact, std::uint64_t seed) {
  if (!process)
    start();
  const auto began = std::chrono::steady_clock::now();
  std::string kernel = load(artifact);
  call({{{"call", "prepare"}, {"kernel", kernel}, {"seed", seed}}, {}}, options.prepare);
  preparing = std::max(preparing, std::chrono::duration_cast<std::chrono::seconds>(
                                      std::chrono::steady_clock::now() - began));
}

/// What seems wrong is compared with more draws, up to seven, each of which may take as long as all
/// that was prepared.
Check Worker::verify(const Artifact& artifact, std::uint64_t seed) {
  constexpr int mostDraws = 7;
  prepare(artifact, seed);
  std::string kernel = load(artifact);
  return checkOf(call({{{"call", "verify"}, {"kernel", kernel}, {"seed", seed}}, {}},
                      options.verify + mostDraws * preparing)
                     .json);
}

Batch Worker::time(std::span<const Artifact* const> kernels, std::size_t rounds) {
  if (!process)
    start();
  Json names = Json::array();
  for (const Artifact* kernel : kernels)
    names.push_back(kernel ? Json(load(*kernel)) : Json());
  Message message =
      call({{{"call", "time"}, {"kernels", names}, {"rounds", rounds}}, {}}, options.time);
  return {message.json.at("samples"), conditionsOf(message.json.at("conditions"))};
}

Conditions Worker::conditions() {
  if (!process)
    start();
  return conditionsOf(call({{{"call", "conditions"}}, {}}, options.start).json.at("conditions"));
}

} // namespace kiln::autotune
