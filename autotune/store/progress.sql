-- What was the best after how many seconds of a key's search: one row each time that it improved.
WITH timed AS (
  SELECT measurement.at, median,
    min(median) OVER (ORDER BY measurement.at ROWS UNBOUNDED PRECEDING) AS best,
    min(measurement.at) OVER () AS began
  FROM measurement JOIN candidate ON candidate.id = measurement.candidate
  WHERE candidate.key = ?1 AND throttled = 0
    AND measurement.at <= (SELECT at FROM choice WHERE choice.key = ?1))
SELECT (at - began) / 1e6, best FROM timed WHERE median = best ORDER BY at
