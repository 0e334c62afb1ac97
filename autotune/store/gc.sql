-- Drops cubins that no choice needs, expired leases, and rows that nothing refers to. What was
-- learned of candidates (rejections, failures, verdicts, measurements) stays.
DELETE FROM lease WHERE expires < CAST(strftime('%s') AS INTEGER) * 1000000;
DELETE FROM launch WHERE NOT EXISTS
  (SELECT 1 FROM choice WHERE choice.key = launch.key AND choice.cubin = launch.cubin);
DELETE FROM artifact WHERE sha256 NOT IN (SELECT cubin FROM launch);
DELETE FROM prediction WHERE candidate NOT IN (SELECT candidate FROM measurement);
DELETE FROM candidate WHERE id NOT IN (SELECT candidate FROM rejection UNION
  SELECT candidate FROM failure UNION SELECT candidate FROM verdict UNION
  SELECT candidate FROM measurement UNION SELECT candidate FROM baseline UNION
  SELECT candidate FROM copy);
DELETE FROM key WHERE id NOT IN (SELECT key FROM choice UNION SELECT key FROM candidate UNION
  SELECT key FROM lease UNION SELECT key FROM search);
DELETE FROM task WHERE workload NOT IN (SELECT workload FROM key);
DELETE FROM workload WHERE id NOT IN (SELECT workload FROM key);
DELETE FROM device WHERE id NOT IN (SELECT device FROM key);
DELETE FROM toolchain WHERE id NOT IN (SELECT toolchain FROM key);
DELETE FROM space WHERE id NOT IN (SELECT space FROM key);
