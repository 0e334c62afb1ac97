// Folders that commands write into.
#pragma once

#include "models/common/Fail.h"

#include <filesystem>

namespace kiln::models {

/// Makes a folder with those it lies in, if it is not there. Throws Error(io) that names it.
inline void makeFolder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error)
    fail(ErrorKind::io, "the folder {} cannot be made: {}; give the path of one that can",
         path.string(), error.message());
}

} // namespace kiln::models
