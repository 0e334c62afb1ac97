-- One row a key that has a choice: what a report tells of it. Times are the last that were taken;
-- of vendors the best.
WITH last_search AS (
  SELECT *, row_number() OVER (PARTITION BY key ORDER BY at DESC) AS place FROM search),
timed AS (
  SELECT candidate.key, schedule, measurement.*, row_number() OVER (
      PARTITION BY candidate.key, schedule ORDER BY measurement.at DESC) AS place
    FROM measurement JOIN candidate ON candidate.id = measurement.candidate WHERE throttled = 0),
vendor AS (
  SELECT candidate.key, schedule, baseline.*, row_number() OVER (
      PARTITION BY candidate.key ORDER BY median) AS place
    FROM baseline JOIN candidate ON candidate.id = baseline.candidate WHERE throttled = 0),
plain_copy AS (
  SELECT candidate.key, copy.*, row_number() OVER (
      PARTITION BY candidate.key ORDER BY copy.at DESC) AS place
    FROM copy JOIN candidate ON candidate.id = copy.candidate WHERE throttled = 0),
searched AS (
  SELECT candidate.key, candidate.id, measurement.ratio, row_number() OVER (
      PARTITION BY candidate.id ORDER BY measurement.at DESC) AS place
    FROM measurement JOIN candidate ON candidate.id = measurement.candidate
    JOIN last_search ON last_search.key = candidate.key AND last_search.place = 1
    WHERE throttled = 0 AND measurement.at <= last_search.at),
-- How near the model's cheapest come to the best, as ratios to the default's time, all by the search
-- that compared them: the choice alone is timed again later. It is known where all that a search has
-- timed is still there: not in a store that was exported.
judged AS (
  SELECT searched.key, count(*) AS known, min(ratio) AS best, min(CASE WHEN prediction.place < 8 THEN ratio END) AS eight
    FROM searched JOIN prediction ON prediction.candidate = searched.id
    WHERE searched.place = 1 GROUP BY searched.key)
SELECT key.id, workload.label, device.arch, device.name, choice.source, choice.schedule,
  choice.reason,
  chosen.median, chosen.low, chosen.high, chosen.ratio, chosen.ratio_low, chosen.ratio_high,
  standard.median, standard.low, standard.high,
  vendor.median, vendor.low, vendor.high, vendor.schedule,
  plain_copy.median, plain_copy.low, plain_copy.high,
  last_search.roofline, last_search.bytes, last_search.feasible, last_search.tried,
  prediction.place, prediction.microseconds,
  CASE WHEN judged.known >= last_search.tried THEN coalesce(judged.eight / judged.best, 0) END
FROM choice
JOIN key ON key.id = choice.key
JOIN workload ON workload.id = key.workload
JOIN device ON device.id = key.device
LEFT JOIN last_search ON last_search.key = key.id AND last_search.place = 1
LEFT JOIN timed AS chosen ON chosen.key = key.id AND chosen.place = 1
  AND chosen.schedule = choice.schedule AND choice.source <> 'vendor'
LEFT JOIN timed AS standard ON standard.key = key.id AND standard.place = 1
  AND standard.schedule = last_search.standard
LEFT JOIN vendor ON vendor.key = key.id AND vendor.place = 1
LEFT JOIN plain_copy ON plain_copy.key = key.id AND plain_copy.place = 1
LEFT JOIN prediction ON prediction.candidate = chosen.candidate
LEFT JOIN judged ON judged.key = key.id
ORDER BY device.name, workload.label, key.id
