// Keys and times of stores as the verbs print them; cache, explain, bench, regress and verify share
// it.
#pragma once

#include "kiln/cache.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace kiln::tool {

/// The first digits of a key or of a SHA-256: enough for people to tell them apart.
std::string shortName(const std::string& digits);

/// Adds --arch and --ops, which leave out the other choices of a store.
void addFilter(CLI::App& verb, cache::Filter& filter);

/// Warns of a store that others may write.
void warnOfOthers(const std::string& store);

/// What was timed and how long it took.
nlohmann::ordered_json figuresJson(const cache::Time& time);
/// The same, and where.
nlohmann::ordered_json toJson(const cache::Time& time);

} // namespace kiln::tool
