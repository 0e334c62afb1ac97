// Shared by the tests of the backend: what a text has, folders and variables that go away.
#pragma once

#include "test/Errors.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <unistd.h>

namespace kiln::test {

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
