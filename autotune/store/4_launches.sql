-- Schedules with equal code share its cubin, and each is launched its own way: a plan belongs to a
-- schedule. What is proved of one says nothing about the others. And of the schedules that were
-- never compiled: how many broke which rule.
DROP TRIGGER choice_is_proved;
DROP TRIGGER choice_stays_proved;
DROP TRIGGER failed_choice_is_withdrawn;
DROP VIEW proved;

CREATE TABLE launch_of_schedule (
  key TEXT NOT NULL REFERENCES key, schedule TEXT NOT NULL,
  cubin TEXT NOT NULL REFERENCES artifact,
  plan TEXT NOT NULL, plan_sha256 TEXT NOT NULL,
  PRIMARY KEY (key, schedule, cubin)
) STRICT;
-- A plan was that of whatever was chosen or judged with its cubin.
INSERT INTO launch_of_schedule
  SELECT launch.key, used.schedule, launch.cubin, plan, plan_sha256 FROM launch JOIN (
    SELECT key, schedule, cubin FROM choice WHERE cubin IS NOT NULL
    UNION SELECT candidate.key, candidate.schedule, verdict.cubin FROM verdict
      JOIN candidate ON candidate.id = verdict.candidate) AS used
  ON used.key = launch.key AND used.cubin = launch.cubin;

-- A choice with a cubin can be launched: cubin and plan are here. The vendor's has none.
CREATE TABLE choice_of_key (
  key TEXT PRIMARY KEY NOT NULL REFERENCES key,
  schedule TEXT NOT NULL, cubin TEXT,
  source TEXT NOT NULL CHECK (source IN ('measured', 'transferred', 'model', 'pinned', 'vendor')),
  reason TEXT NOT NULL, margin REAL NOT NULL, at INTEGER NOT NULL,
  FOREIGN KEY (key, schedule, cubin) REFERENCES launch_of_schedule
) STRICT;
INSERT INTO choice_of_key SELECT * FROM choice;

DROP TABLE choice;
DROP TABLE launch;
ALTER TABLE launch_of_schedule RENAME TO launch;
ALTER TABLE choice_of_key RENAME TO choice;
CREATE INDEX launch_by_cubin ON launch (cubin);

CREATE TABLE refusal (
  key TEXT NOT NULL REFERENCES key, kernel TEXT NOT NULL, rule TEXT NOT NULL,
  schedules INTEGER NOT NULL, -- how many
  worst TEXT NOT NULL,        -- of one of them, with the numbers
  PRIMARY KEY (key, kernel, rule)
) STRICT;

-- The rules of 2_rules.sql, schedule by schedule.
CREATE VIEW proved AS
  SELECT candidate.key AS key, candidate.schedule AS schedule, verdict.cubin AS cubin FROM verdict
    JOIN candidate ON candidate.id = verdict.candidate
    GROUP BY candidate.id, verdict.cubin HAVING min(verdict.pass) = 1;

DELETE FROM choice WHERE source = 'measured' AND NOT EXISTS (SELECT 1 FROM proved
  WHERE key = choice.key AND schedule = choice.schedule AND cubin = choice.cubin);

CREATE TRIGGER choice_is_proved BEFORE INSERT ON choice WHEN NEW.source = 'measured'
  AND NOT EXISTS (SELECT 1 FROM proved
    WHERE key = NEW.key AND schedule = NEW.schedule AND cubin = NEW.cubin)
BEGIN
  SELECT RAISE(ABORT, 'unproved choice');
END;

CREATE TRIGGER choice_stays_proved BEFORE UPDATE ON choice WHEN NEW.source = 'measured'
  AND NOT EXISTS (SELECT 1 FROM proved
    WHERE key = NEW.key AND schedule = NEW.schedule AND cubin = NEW.cubin)
BEGIN
  SELECT RAISE(ABORT, 'unproved choice');
END;

CREATE TRIGGER failed_choice_is_withdrawn AFTER INSERT ON verdict WHEN NEW.pass = 0
BEGIN
  DELETE FROM choice WHERE source = 'measured' AND cubin = NEW.cubin
    AND (key, schedule) = (SELECT key, schedule FROM candidate WHERE id = NEW.candidate);
END;
