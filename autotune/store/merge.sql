-- The union of main and other, rows of the same name once; then one choice a key, by rules that do
-- not ask which file came first.
INSERT OR IGNORE INTO main.toolchain SELECT * FROM other.toolchain;
INSERT OR IGNORE INTO main.device SELECT * FROM other.device;
INSERT INTO main.workload SELECT * FROM other.workload WHERE true
  ON CONFLICT DO UPDATE SET label = max(label, excluded.label), text = max(text, excluded.text);
INSERT OR IGNORE INTO main.space SELECT * FROM other.space;
INSERT OR IGNORE INTO main.key SELECT * FROM other.key;
INSERT OR IGNORE INTO main.candidate SELECT * FROM other.candidate;
INSERT OR IGNORE INTO main.artifact SELECT * FROM other.artifact;
INSERT OR IGNORE INTO main.launch SELECT * FROM other.launch;
INSERT OR IGNORE INTO main.rejection SELECT * FROM other.rejection;
INSERT OR IGNORE INTO main.failure SELECT * FROM other.failure;
INSERT OR IGNORE INTO main.verdict SELECT * FROM other.verdict;
INSERT OR IGNORE INTO main.measurement SELECT * FROM other.measurement;
INSERT OR IGNORE INTO main.baseline SELECT * FROM other.baseline;
INSERT OR IGNORE INTO main.copy SELECT * FROM other.copy;
INSERT OR IGNORE INTO main.search SELECT * FROM other.search;
INSERT INTO main.prediction SELECT * FROM other.prediction WHERE true ON CONFLICT DO UPDATE SET
  place = min(place, excluded.place), microseconds = min(microseconds, excluded.microseconds);
-- A general form may be missing, or come with names of its own.
INSERT OR REPLACE INTO main.task SELECT workload, sizes, general, general_sizes FROM (
  SELECT *, row_number() OVER (PARTITION BY workload ORDER BY general DESC, general_sizes, sizes)
    AS place FROM (SELECT * FROM main.task UNION SELECT * FROM other.task)) WHERE place = 1;
INSERT INTO main.event SELECT * FROM other.event EXCEPT SELECT * FROM main.event;

-- The strongest source, then the narrowest interval that was measured, then the order of the texts.
INSERT OR REPLACE INTO main.choice
SELECT key, schedule, cubin, source, reason, margin, at FROM (
  SELECT contender.*, row_number() OVER (
    PARTITION BY contender.key
    ORDER BY CASE source WHEN 'pinned' THEN 0 WHEN 'transferred' THEN 2 WHEN 'model' THEN 3
             ELSE 1 END,
      (SELECT min((high - low) / median) FROM main.measurement
         JOIN main.candidate ON candidate.id = measurement.candidate
         WHERE candidate.key = contender.key AND measurement.cubin = contender.cubin) NULLS LAST,
      schedule, cubin, source, reason, margin, at) AS place
  FROM (SELECT * FROM main.choice UNION SELECT * FROM other.choice) AS contender
  WHERE source <> 'measured' OR EXISTS (SELECT 1 FROM main.proved
    WHERE proved.key = contender.key AND proved.cubin = contender.cubin))
WHERE place = 1;
