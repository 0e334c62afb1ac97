// What supervisor and worker say to each other: messages of JSON with a block of bytes (a cubin)
// behind it, each part with its length in front, over a socket. A message that is cut short, too
// long or no JSON is refused.
#pragma once

#include "autotune/measure/Device.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

namespace kiln::autotune {

using Json = nlohmann::ordered_json;

struct Message {
  Json json;
  std::vector<std::byte> bytes;
};

/// False: the other end is gone.
bool send(int socket, const Message& message);
/// Waits for the next message; none: the other end is gone. Throws Error(io) for what is no
/// message.
std::optional<Message> receive(int socket);

Json toJson(const Task& task);
Task taskOf(const Json& json);
Json toJson(const Conditions& conditions);
Conditions conditionsOf(const Json& json);

/// The cubin travels as the message's bytes.
Message toMessage(const Artifact& artifact);
Artifact artifactOf(Message message);
Message toMessage(const Compiled& compiled);
Compiled compiledOf(Message message);
Json toJson(const Check& check);
Check checkOf(const Json& json);

} // namespace kiln::autotune
