// The text of --help: groups of options, names in a column of 28, text wrapped to the terminal.
#pragma once

#include <CLI/CLI.hpp>

namespace kiln::tool {

class Help : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
};

} // namespace kiln::tool
