// Tables and rules of the store, and the way from older versions to this one. A version is the
// number of steps taken; each step is a .sql file that is never changed again. Also the statements
// that are long enough for files of their own.
#pragma once

#include "autotune/store/Database.h"

namespace kiln::autotune {

inline constexpr std::int64_t kApplication = 0x4b696c6e; // "Kiln", PRAGMA application_id

/// Text of "store/NAME.sql".
const char* sqlOf(std::string_view file);

/// The steps, oldest first.
std::vector<const char*> schemaSteps();

/// Whether there is nothing in the file yet.
bool isEmpty(Database& database);
/// Writes the application id into a file that has nothing yet, before anything else: a file that
/// was begun and not finished is Kiln's too.
void claim(Database& database);
/// The version. Throws Error(input) for a file of another program or a newer Kiln, Error(corrupt)
/// for a damaged one: pages, types, or tables that no step has made.
std::int64_t checkSchema(Database& database, const std::vector<const char*>& steps);
/// Takes the steps that are missing, all or none.
void migrate(Database& database, const std::vector<const char*>& steps);

} // namespace kiln::autotune
