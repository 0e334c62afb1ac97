// The worker's own side: answers one request after another; see Worker.h.
#include "autotune/measure/Worker.h"
#include "codegen/backend/Fail.h"

#include <csignal>
#include <malloc.h>
#include <map>
#include <poll.h>
#include <thread>
#include <unistd.h>

namespace kiln::autotune {
namespace {

/// Ends the process as soon as the supervisor is gone, whatever the main thread is doing.
void watch(int socket) {
  pollfd wait = {socket, POLLRDHUP, 0};
  while (::poll(&wait, 1, -1) < 0 || !(wait.revents & (POLLRDHUP | POLLHUP | POLLERR))) {
  }
  ::_exit(0);
}

/// References are tensors of megabytes that come and go: their memory is kept, for getting it from
/// the system again would take longer than computing them.
void keepMemory() {
  ::mallopt(M_ARENA_MAX, 1);
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, -1); // never
}

class Session {
 public:
  explicit Session(const DeviceFactory& make) : make(make) {}

  Message answer(Message request) {
    if (!device)
      device = make();
    const std::string call = request.json.at("call");
    if (call == "begin") {
      artifacts.clear();
      device->begin(taskOf(request.json.at("task")));
      return {Json::object(), {}};
    }
    if (call == "load") {
      std::string name = request.json.at("name");
      artifacts.insert_or_assign(name, artifactOf(std::move(request)));
      return {Json::object(), {}};
    }
    if (call == "compile")
      return toMessage(
          device->compile({request.json.at("schedule"), request.json.at("microseconds")}));
    if (call == "prepare") {
      device->prepare(artifact(request.json.at("kernel")), request.json.at("seed"));
      return {Json::object(), {}};
    }
    if (call == "verify")
      return {toJson(device->verify(artifact(request.json.at("kernel")), request.json.at("seed"))),
              {}};
    if (call == "time")
      return time(request.json);
    if (call == "conditions")
      return {{{"conditions", toJson(device->conditions())}}, {}};
    return {Json::object(), {}}; // hello: there is a device
  }

 private:
  const Artifact& artifact(const std::string& name) const {
    auto found = artifacts.find(name);
    if (found == artifacts.end())
      fail(ErrorKind::input, "kernel {} was not loaded into the worker", name);
    return found->second;
  }
  Message time(const Json& request) {
    std::vector<const Artifact*> kernels;
    for (const Json& name : request.at("kernels"))
      kernels.push_back(name.is_null() ? nullptr : &artifact(name));
    Batch batch = device->time(kernels, request.at("rounds"));
    return {{{"samples", batch.samples}, {"conditions", toJson(batch.conditions)}}, {}};
  }

  const DeviceFactory& make;
  std::unique_ptr<Device> device;
  std::map<std::string, Artifact> artifacts;
};

Message errorMessage(ErrorKind kind, const char* text) {
  return {{{"error", {{"kind", static_cast<int>(kind)}, {"text", text}}}}, {}};
}

} // namespace

int serve(const DeviceFactory& make, int socket) {
  keepMemory();
  std::signal(SIGINT, SIG_IGN); // the supervisor's to decide
  std::thread(watch, socket).detach();
  Session session(make);
  while (std::optional<Message> request = receive(socket)) {
    try {
      send(socket, session.answer(std::move(*request)));
    } catch (const Lost& lost) {
      send(socket, {{{"lost", {{"kind", name(lost.kind)}, {"text", lost.what()}}}}, {}});
      ::_exit(1); // a broken context can hold up an orderly end
    } catch (const Error& error) {
      send(socket, errorMessage(error.kind(), error.what()));
    } catch (const std::exception& error) {
      send(socket, errorMessage(ErrorKind::input, error.what()));
    }
  }
  ::_exit(0);
}

} // namespace kiln::autotune
