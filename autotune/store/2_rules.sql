-- What was measured counts only if it was proved right first, whoever writes: a measured choice
-- needs a passing verdict of the same cubin under the same key, and no failing one.
CREATE VIEW proved AS
  SELECT candidate.key AS key, verdict.cubin AS cubin FROM verdict
    JOIN candidate ON candidate.id = verdict.candidate
    GROUP BY candidate.key, verdict.cubin HAVING min(verdict.pass) = 1;

DELETE FROM choice WHERE source = 'measured'
  AND NOT EXISTS (SELECT 1 FROM proved WHERE key = choice.key AND cubin = choice.cubin);

CREATE TRIGGER choice_is_proved BEFORE INSERT ON choice WHEN NEW.source = 'measured'
  AND NOT EXISTS (SELECT 1 FROM proved WHERE key = NEW.key AND cubin = NEW.cubin)
BEGIN
  SELECT RAISE(ABORT, 'unproved choice');
END;

CREATE TRIGGER choice_stays_proved BEFORE UPDATE ON choice WHEN NEW.source = 'measured'
  AND NOT EXISTS (SELECT 1 FROM proved WHERE key = NEW.key AND cubin = NEW.cubin)
BEGIN
  SELECT RAISE(ABORT, 'unproved choice');
END;

-- What turns out to be wrong later is withdrawn at once.
CREATE TRIGGER failed_choice_is_withdrawn AFTER INSERT ON verdict WHEN NEW.pass = 0
BEGIN
  DELETE FROM choice WHERE source = 'measured' AND cubin = NEW.cubin
    AND key = (SELECT key FROM candidate WHERE id = NEW.candidate);
END;
