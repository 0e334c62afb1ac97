// What tests of models/lm share: a folder that vanishes, and what an error says.
#pragma once

#include "kiln/kiln.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
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

inline std::string contentOf(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline void writeFile(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

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
