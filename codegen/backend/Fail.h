// Throws kiln::Error with a formatted message. Messages say what is wrong with its numbers,
// what is allowed and what to try next, in that order.
#pragma once

#include "kiln/kiln.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

namespace kiln {

template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(kind, fmt::format(text, std::forward<Args>(args)...));
}

/// What stands behind a public value. `what` names its class, `maker` what gives one.
template <typename State>
State& held(const std::shared_ptr<State>& state, std::string_view what, std::string_view maker) {
  if (!state)
    fail(
        ErrorKind::input,
        "this kiln::{} is empty: it was made without arguments or moved from; assign what {} gives",
        what, maker);
  return *state;
}

} // namespace kiln
