// Shared by the tests of the backend: the message of an expected error, folders that go away.
#pragma once

#include "kiln/kiln.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <unistd.h>

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

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

#define EXPECT_HAS(text, part)                                                                     \
  EXPECT_TRUE(kiln::test::contains(text, part)) << "text: " << (text) << "\nwanted: " << (part)

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kiln-test-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path, error);
  }
  std::filesystem::path path;
};

/// Sets or, with null, removes an environment variable for the life of the object.
class Environment {
 public:
  Environment(const char* name, const char* value) : name(name) {
    if (const char* old = std::getenv(name)) {
      had = true;
      before = old;
    }
    value ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  ~Environment() { had ? ::setenv(name, before.c_str(), 1) : ::unsetenv(name); }

 private:
  const char* name;
  bool had = false;
  std::string before;
};

} // namespace kiln::test
