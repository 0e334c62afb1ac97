// From several stores one, and from one a smaller one. The source of a merge is copied and checked
// before any of it is used; the target gets all of it or nothing.
#pragma once

#include "autotune/store/Store.h"

namespace kiln::autotune {

/// Two stores had different choices for a key; `kept` is the one that the result has.
struct Conflict {
  KnownKey key;
  Choice first, second, kept;
};

/// Throws Error(corrupt) naming what is wrong with `from`.
std::vector<Conflict> merge(Store& into, const Store& from);

/// Choices of these architectures and operations (the first words of labels); empty: of all.
struct Selection {
  std::vector<std::string> archs, ops;
  bool takes(const KnownKey& key) const;
};

/// Writes the selected choices with all that they need into one new file.
void exportChoices(const Store& from, const std::filesystem::path& file,
                   const Selection& selection);

struct Collected {
  std::int64_t cubins = 0, keys = 0, bytesBefore = 0, bytesAfter = 0;
};
/// Drops what no choice needs; `emitter`: and all keys of any other emitter, unless it is empty.
Collected collectGarbage(Store& store, std::string_view emitter);

/// What is wrong with a store, beyond what opening it finds; empty: nothing.
std::vector<std::string> check(const Store& store);

} // namespace kiln::autotune
