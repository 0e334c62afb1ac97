-- What is known of candidates counts under other names too: temp.carried pairs them. Rows that have
-- been carried before, or are there already, stay as they are; so does the time they were taken.
INSERT OR IGNORE INTO verdict
  SELECT new, cubin, pass, reference, error, deterministic, seed, at
  FROM verdict JOIN temp.carried ON old = candidate;
INSERT OR IGNORE INTO prediction
  SELECT new, place, microseconds FROM prediction JOIN temp.carried ON old = candidate;
INSERT OR IGNORE INTO measurement
  SELECT new, cubin, median, low, high, samples, ratio, ratio_low, ratio_high, uuid, driver, host,
    sm_clock, memory_clock, temperature, throttled, foreign_processes, at
  FROM measurement JOIN temp.carried ON old = candidate;
INSERT OR IGNORE INTO baseline
  SELECT new, cubin, median, low, high, samples, ratio, ratio_low, ratio_high, uuid, driver, host,
    sm_clock, memory_clock, temperature, throttled, foreign_processes, at
  FROM baseline JOIN temp.carried ON old = candidate;
INSERT OR IGNORE INTO copy
  SELECT new, cubin, median, low, high, samples, ratio, ratio_low, ratio_high, uuid, driver, host,
    sm_clock, memory_clock, temperature, throttled, foreign_processes, at
  FROM copy JOIN temp.carried ON old = candidate;
