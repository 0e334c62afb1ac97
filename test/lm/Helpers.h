// What tests of models/lm share: a folder that vanishes, and what an error says.
#pragma once

#include "kiln/files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <unistd.h>

namespace kiln::lm {

class Folder {
 public:
  Folder() {
    std::string name = testing::TempDir() + "kiln_lm_XXXXXX";
    path = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path / name; }
  std::string string() const { return path.string(); }

 private:
  std::filesystem::path path;
};

/// The text of the kiln::Error that `function` throws.
template <typename Function> std::string errorOf(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

#define EXPECT_SAYS(text, part)                                                                    \
  EXPECT_NE((text).find(part), std::string::npos) << (text) << "\nlacks: " << (part)

} // namespace kiln::lm
