// Lines for people, where Options::log says; nowhere by default.
#pragma once

#include <fmt/format.h>

namespace kiln::runtime {

void setLog(const std::string& where); // "", "stderr" or a file to append to
bool isLogging();
void writeLog(const std::string& line);

template <typename... Args> void log(fmt::format_string<Args...> text, Args&&... args) {
  if (isLogging())
    writeLog(fmt::format(text, std::forward<Args>(args)...));
}

} // namespace kiln::runtime
