-- What was the best after how many seconds of a key's last search: one row each time that it
-- improved. Seconds count from its first measurement.
WITH last_search AS (
  SELECT at AS ended, at - CAST(seconds * 1e6 AS INTEGER) AS began
  FROM search WHERE key = ?1 ORDER BY at DESC LIMIT 1),
timed AS (
  SELECT measurement.at, median,
    min(median) OVER (ORDER BY measurement.at ROWS UNBOUNDED PRECEDING) AS best,
    min(measurement.at) OVER () AS first
  FROM last_search, measurement JOIN candidate ON candidate.id = measurement.candidate
  WHERE candidate.key = ?1 AND throttled = 0 AND measurement.at BETWEEN began AND ended)
SELECT (at - first) / 1e6, best FROM timed WHERE median = best ORDER BY at
