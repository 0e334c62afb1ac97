-- What a report needs, and who runs a choice again, beside the rows of candidates: how searches
-- went, what the cost model expected, what a copy of as many bytes takes, how a function is run.
CREATE TABLE search (
  key TEXT NOT NULL REFERENCES key,
  feasible INTEGER NOT NULL, tried INTEGER NOT NULL,
  standard TEXT NOT NULL,  -- the default's schedule; empty: none worked
  runner_up TEXT NOT NULL, -- of the fastest beside the choice; empty: there was none
  ratio REAL NOT NULL, ratio_low REAL NOT NULL, ratio_high REAL NOT NULL, -- of the choice to it
  roofline REAL NOT NULL, bytes REAL NOT NULL, -- 0: not known
  seconds REAL NOT NULL, reason TEXT NOT NULL, at INTEGER NOT NULL, -- when and why it ended
  PRIMARY KEY (key, at)
) STRICT;

CREATE TABLE prediction (
  candidate TEXT PRIMARY KEY NOT NULL REFERENCES candidate,
  place INTEGER NOT NULL, -- among the feasible, 0 is the cheapest
  microseconds REAL NOT NULL
) STRICT;

-- The candidate's schedule is "copy".
CREATE TABLE copy (
  candidate TEXT NOT NULL REFERENCES candidate, cubin TEXT NOT NULL,
  median REAL NOT NULL, low REAL NOT NULL, high REAL NOT NULL, samples INTEGER NOT NULL,
  ratio REAL NOT NULL, ratio_low REAL NOT NULL, ratio_high REAL NOT NULL,
  uuid TEXT NOT NULL, driver TEXT NOT NULL, host TEXT NOT NULL,
  sm_clock INTEGER NOT NULL, memory_clock INTEGER NOT NULL, temperature INTEGER NOT NULL,
  throttled INTEGER NOT NULL, foreign_processes INTEGER NOT NULL, at INTEGER NOT NULL,
  PRIMARY KEY (candidate, cubin, uuid, host, at)
) STRICT;

-- Sizes are as 64x128; none is ''.
CREATE TABLE task (
  workload TEXT PRIMARY KEY NOT NULL REFERENCES workload,
  sizes TEXT NOT NULL,        -- known at run time only
  general TEXT NOT NULL,      -- the function with more of such, to be verified on others; or ''
  general_sizes TEXT NOT NULL -- of that
) STRICT;
