// Shared by all tests: the message of an expected error.
#pragma once

#include "kiln/kiln.h"

#include <gtest/gtest.h>

#include <string>

namespace kiln::test {

/// The text of the kiln::Error that `action` throws; fails the test if its kind is another.
template <typename Action> std::string errorOf(ErrorKind kind, Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(kind), static_cast<int>(error.kind())) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

} // namespace kiln::test
