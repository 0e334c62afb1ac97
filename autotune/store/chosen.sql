-- Leaves what a program needs to run and a person to believe it: choices, with the verdicts and
-- measurements of their cubins, and the times of defaults, vendors and copies. gc.sql drops what then
-- has no reader.
DELETE FROM lease;
DELETE FROM event;
DELETE FROM rejection;
DELETE FROM failure;
CREATE TEMP TABLE chosen AS SELECT candidate.id AS id, choice.cubin AS cubin FROM candidate
  JOIN choice ON choice.key = candidate.key;
DELETE FROM verdict WHERE (candidate, cubin) NOT IN (SELECT id, cubin FROM chosen
  WHERE cubin IS NOT NULL);
DELETE FROM measurement WHERE (candidate, cubin) NOT IN (SELECT id, cubin FROM chosen
  WHERE cubin IS NOT NULL) AND candidate NOT IN (SELECT candidate.id FROM candidate
  JOIN search ON search.key = candidate.key AND search.standard = candidate.schedule);
DELETE FROM baseline WHERE candidate NOT IN (SELECT id FROM chosen);
DELETE FROM copy WHERE candidate NOT IN (SELECT id FROM chosen);
DELETE FROM search WHERE key NOT IN (SELECT key FROM choice);
DROP TABLE chosen;
