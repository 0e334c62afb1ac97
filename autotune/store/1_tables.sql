-- What the tuner learned. Rows are named by what they say (hashes and texts), never by numbers that
-- one file gave them: two stores are merged by taking the union of their rows. Times are
-- microseconds since 1970 in `at`, microseconds of a kernel elsewhere. No table is WITHOUT ROWID:
-- SQLite 3.40 reports NULLs in sound ones when it checks a file.
CREATE TABLE toolchain (
  id TEXT PRIMARY KEY NOT NULL, -- SHA-256 of the rest
  nvrtc TEXT NOT NULL, flags TEXT NOT NULL, emitter TEXT NOT NULL
) STRICT;

CREATE TABLE device (
  id TEXT PRIMARY KEY NOT NULL, -- SHA-256 of the rest
  arch TEXT NOT NULL, name TEXT NOT NULL
) STRICT;

CREATE TABLE workload (
  id TEXT PRIMARY KEY NOT NULL, -- SHA-256 of function and tensors
  function TEXT NOT NULL, tensors TEXT NOT NULL,
  label TEXT NOT NULL, -- for people: layer_norm 65536x128 bf16
  text TEXT NOT NULL   -- of the function, if it is known
) STRICT;

CREATE TABLE space (
  id TEXT PRIMARY KEY NOT NULL -- SHA-256 of knobs and constraints
) STRICT;

CREATE TABLE key (
  id TEXT PRIMARY KEY NOT NULL, -- the digest of all fields
  workload TEXT NOT NULL REFERENCES workload, device TEXT NOT NULL REFERENCES device,
  toolchain TEXT NOT NULL REFERENCES toolchain, space TEXT NOT NULL REFERENCES space,
  regime TEXT NOT NULL CHECK (regime IN ('cold', 'warm'))
) STRICT;

CREATE TABLE candidate (
  id TEXT PRIMARY KEY NOT NULL, -- SHA-256 of key and schedule
  key TEXT NOT NULL REFERENCES key, schedule TEXT NOT NULL
) STRICT;
CREATE INDEX candidate_by_key ON candidate (key);

CREATE TABLE artifact (
  sha256 TEXT PRIMARY KEY NOT NULL, -- of the cubin
  cubin BLOB NOT NULL,              -- compressed by zstd
  bytes INTEGER NOT NULL,           -- before that
  registers INTEGER NOT NULL, shared INTEGER NOT NULL, stack INTEGER NOT NULL,
  spilled INTEGER NOT NULL
) STRICT;

-- Equal cubins may be launched in several ways: rows that are constants here, arguments there.
CREATE TABLE launch (
  key TEXT NOT NULL REFERENCES key, cubin TEXT NOT NULL REFERENCES artifact,
  plan TEXT NOT NULL, plan_sha256 TEXT NOT NULL,
  PRIMARY KEY (key, cubin)
) STRICT;
CREATE INDEX launch_by_cubin ON launch (cubin);

CREATE TABLE rejection (
  candidate TEXT NOT NULL REFERENCES candidate, gate TEXT NOT NULL, rule TEXT NOT NULL,
  asked REAL NOT NULL, allowed REAL NOT NULL,
  PRIMARY KEY (candidate, gate, rule)
) STRICT;

CREATE TABLE failure (
  candidate TEXT NOT NULL REFERENCES candidate, cubin TEXT NOT NULL, driver TEXT NOT NULL,
  kind TEXT NOT NULL, log TEXT NOT NULL, at INTEGER NOT NULL,
  PRIMARY KEY (candidate, cubin, driver, at)
) STRICT;

CREATE TABLE verdict (
  candidate TEXT NOT NULL REFERENCES candidate, cubin TEXT NOT NULL,
  pass INTEGER NOT NULL CHECK (pass IN (0, 1)), reference TEXT NOT NULL, error REAL NOT NULL,
  deterministic INTEGER NOT NULL CHECK (deterministic IN (0, 1)), seed INTEGER NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (candidate, cubin, at, seed)
) STRICT;

CREATE TABLE measurement (
  candidate TEXT NOT NULL REFERENCES candidate, cubin TEXT NOT NULL,
  median REAL NOT NULL, low REAL NOT NULL, high REAL NOT NULL, samples INTEGER NOT NULL,
  ratio REAL NOT NULL, ratio_low REAL NOT NULL, ratio_high REAL NOT NULL,
  uuid TEXT NOT NULL, driver TEXT NOT NULL, host TEXT NOT NULL,
  sm_clock INTEGER NOT NULL, memory_clock INTEGER NOT NULL, temperature INTEGER NOT NULL,
  throttled INTEGER NOT NULL, foreign_processes INTEGER NOT NULL, at INTEGER NOT NULL,
  PRIMARY KEY (candidate, cubin, uuid, host, at)
) STRICT;

-- What a vendor's library takes; the candidate's schedule is the provider's name and version.
CREATE TABLE baseline (
  candidate TEXT NOT NULL REFERENCES candidate, cubin TEXT NOT NULL,
  median REAL NOT NULL, low REAL NOT NULL, high REAL NOT NULL, samples INTEGER NOT NULL,
  ratio REAL NOT NULL, ratio_low REAL NOT NULL, ratio_high REAL NOT NULL,
  uuid TEXT NOT NULL, driver TEXT NOT NULL, host TEXT NOT NULL,
  sm_clock INTEGER NOT NULL, memory_clock INTEGER NOT NULL, temperature INTEGER NOT NULL,
  throttled INTEGER NOT NULL, foreign_processes INTEGER NOT NULL, at INTEGER NOT NULL,
  PRIMARY KEY (candidate, cubin, uuid, host, at)
) STRICT;

-- A choice with a cubin can be launched: cubin and plan are here. The vendor's has none.
CREATE TABLE choice (
  key TEXT PRIMARY KEY NOT NULL REFERENCES key,
  schedule TEXT NOT NULL, cubin TEXT,
  source TEXT NOT NULL CHECK (source IN ('measured', 'transferred', 'model', 'pinned', 'vendor')),
  reason TEXT NOT NULL, margin REAL NOT NULL, at INTEGER NOT NULL,
  FOREIGN KEY (key, cubin) REFERENCES launch
) STRICT;

CREATE TABLE lease (
  key TEXT PRIMARY KEY NOT NULL REFERENCES key,
  owner TEXT NOT NULL, expires INTEGER NOT NULL
) STRICT;

CREATE TABLE event (
  at INTEGER NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL, what TEXT NOT NULL
) STRICT;
