// See Wire.h.
#include "autotune/measure/Wire.h"

#include "autotune/store/Names.h"
#include "codegen/backend/Fail.h"

#include <array>
#include <cerrno>
#include <concepts>
#include <cstring>
#include <fmt/ranges.h>
#include <sys/socket.h>

namespace kiln::autotune {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30; // of one part of a message

bool sendAll(int socket, const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t sent = ::send(socket, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent <= 0)
      return false;
    at += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receiveAll(int socket, void* data, std::size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    ssize_t got = ::recv(socket, at, size, 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

} // namespace

std::string_view name(FailureKind kind) {
  return nameIn(failureNames, kind);
}

FailureKind parseFailureKind(std::string_view text) {
  if (auto kind = valueOf<FailureKind>(failureNames, text))
    return *kind;
  fail(ErrorKind::input, "unknown kind of failure '{}'; known are {}", text,
       fmt::join(failureNames, ", "));
}

bool send(int socket, const Message& message) {
  // A log may hold any bytes.
  std::string text = message.json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::array<std::uint64_t, 2> sizes{text.size(), message.bytes.size()};
  return sendAll(socket, sizes.data(), sizeof sizes) && sendAll(socket, text.data(), text.size()) &&
         sendAll(socket, message.bytes.data(), message.bytes.size());
}

std::optional<Message> receive(int socket) {
  std::array<std::uint64_t, 2> sizes{};
  if (!receiveAll(socket, sizes.data(), sizeof sizes))
    return std::nullopt;
  if (sizes[0] > kMostBytes || sizes[1] > kMostBytes)
    fail(ErrorKind::io, "a message of {} and {} bytes, {} are allowed; what wrote it is no worker",
         sizes[0], sizes[1], kMostBytes);
  Message message;
  std::string text(sizes[0], '\0');
  message.bytes.resize(sizes[1]);
  if (!receiveAll(socket, text.data(), text.size()) ||
      !receiveAll(socket, message.bytes.data(), message.bytes.size()))
    return std::nullopt;
  message.json = Json::parse(text, nullptr, false);
  if (message.json.is_discarded())
    fail(ErrorKind::io, "a message of {} bytes that is no JSON", text.size());
  return message;
}

//===- Records ------------------------------------------------------------------------------===//

namespace {

/// The fields of a record, once for both directions.
template <class Record, class Visit>
  requires std::same_as<std::remove_const_t<Record>, Task>
void eachField(Record& task, Visit visit) {
  visit("module", task.module);
  visit("arch", task.arch);
  visit("nvrtc", task.nvrtc);
  visit("sizes", task.sizes);
  visit("general", task.general);
  visit("general_sizes", task.generalSizes);
}
template <class Record, class Visit>
  requires std::same_as<std::remove_const_t<Record>, Conditions>
void eachField(Record& c, Visit visit) {
  visit("uuid", c.uuid);
  visit("driver", c.driver);
  visit("host", c.host);
  visit("sm_clock", c.smClockMHz);
  visit("memory_clock", c.memoryClockMHz);
  visit("temperature", c.temperatureC);
  visit("throttled", c.throttled);
  visit("foreign_processes", c.foreignProcesses);
}
/// The cubin travels apart.
template <class Record, class Visit>
  requires std::same_as<std::remove_const_t<Record>, Artifact>
void eachField(Record& artifact, Visit visit) {
  visit("sha256", artifact.sha256);
  visit("plan", artifact.plan);
  visit("general", artifact.general);
  visit("registers", artifact.registers);
  visit("shared_bytes", artifact.sharedBytes);
  visit("stack_bytes", artifact.stackBytes);
  visit("spill_bytes", artifact.spillBytes);
}

template <class Record> Json written(const Record& record) {
  Json json = Json::object();
  eachField(record, [&](const char* field, const auto& value) { json[field] = value; });
  return json;
}
template <class Record> Record read(const Json& json) {
  Record record;
  eachField(record, [&](const char* field, auto& value) { json.at(field).get_to(value); });
  return record;
}

} // namespace

Json toJson(const Task& task) {
  return written(task);
}
Task taskOf(const Json& json) {
  return read<Task>(json);
}
Json toJson(const Conditions& conditions) {
  return written(conditions);
}
Conditions conditionsOf(const Json& json) {
  return read<Conditions>(json);
}

Message toMessage(const Artifact& artifact) {
  return {written(artifact), artifact.cubin};
}
Artifact artifactOf(Message message) {
  Artifact artifact = read<Artifact>(message.json);
  artifact.cubin = std::move(message.bytes);
  return artifact;
}

Message toMessage(const Compiled& compiled) {
  if (const auto* artifact = std::get_if<Artifact>(&compiled)) {
    Message message = toMessage(*artifact);
    message.json = {{"artifact", message.json}};
    return message;
  }
  if (const auto* r = std::get_if<Rejection>(&compiled))
    return {{{"rejection",
              {{"schedule", r->schedule},
               {"gate", r->gate},
               {"constraint", r->constraint},
               {"asked", r->asked},
               {"allowed", r->allowed}}}},
            {}};
  const auto& f = std::get<Failure>(compiled);
  return {{{"failure", {{"schedule", f.schedule}, {"kind", name(f.kind)}, {"log", f.log}}}}, {}};
}

Compiled compiledOf(Message message) {
  if (message.json.contains("artifact")) {
    Json artifact = message.json.at("artifact");
    return artifactOf({std::move(artifact), std::move(message.bytes)});
  }
  if (message.json.contains("rejection")) {
    const Json& json = message.json.at("rejection");
    return Rejection{json.at("schedule"), json.at("gate"), json.at("constraint"), json.at("asked"),
                     json.at("allowed")};
  }
  const Json& json = message.json.at("failure");
  Failure failure;
  json.at("schedule").get_to(failure.schedule);
  failure.kind = parseFailureKind(json.at("kind").get<std::string>());
  json.at("log").get_to(failure.log);
  return failure;
}

Json toJson(const Check& check) {
  Json json = {{"schedule", check.verdict.schedule},
               {"cubin", check.verdict.cubin},
               {"pass", check.verdict.pass},
               {"reference", check.verdict.reference},
               {"worst_error", check.verdict.worstError},
               {"deterministic", check.verdict.deterministic},
               {"seed", check.verdict.seed},
               {"log", check.log}};
  if (check.kind)
    json["kind"] = name(*check.kind);
  return json;
}

Check checkOf(const Json& json) {
  Check check;
  json.at("schedule").get_to(check.verdict.schedule);
  json.at("cubin").get_to(check.verdict.cubin);
  json.at("pass").get_to(check.verdict.pass);
  json.at("reference").get_to(check.verdict.reference);
  // An infinite error has no number in JSON.
  const Json& worst = json.at("worst_error");
  check.verdict.worstError = worst.is_null() ? HUGE_VAL : worst.get<double>();
  json.at("deterministic").get_to(check.verdict.deterministic);
  json.at("seed").get_to(check.verdict.seed);
  json.at("log").get_to(check.log);
  if (json.contains("kind"))
    check.kind = parseFailureKind(json.at("kind").get<std::string>());
  return check;
}

} // namespace kiln::autotune
