-- Topics: each has one name among facts, and knows whether a group reads it.

ALTER TABLE topics ADD COLUMN is_group INTEGER NOT NULL DEFAULT 0; -- 1: its connector said that others read it too

-- The name of a topic was its source, a colon and its key, so that a colon in the source could make it another topic's name. Now
-- a source has %3A for a colon and %25 for a percent sign. Names stand in facts, in their keys and in the gardener's journal;
-- digests of forgotten texts have them as well, but nothing was ever learned into the scope of a topic, so none is looked up again.

-- The topics that a name in use may be of.
CREATE TEMP TABLE named AS
SELECT source || ':' || topic_key AS old, replace(replace(source, '%', '%25'), ':', '%3A') || ':' || topic_key AS new
FROM topics WHERE source || ':' || topic_key IN (
  SELECT unreviewed_in FROM facts WHERE unreviewed_in IS NOT NULL
  UNION SELECT scope_key FROM facts WHERE scope = 'topic');
CREATE TEMP TABLE only_named AS SELECT old, max(new) AS new FROM named GROUP BY old HAVING count(*) = 1;
-- The topic that a fact was learned in, where the event or the op is still there.
CREATE TEMP TABLE learned_in AS
SELECT fact_seq, max(name) AS new FROM (
  SELECT DISTINCT fact_seq, replace(replace(source, '%', '%25'), ':', '%3A') || ':' || topic_key AS name FROM (
    SELECT fact_seq, topics.source, topics.topic_key FROM fact_sources
      JOIN inbox_messages ON inbox_messages.id = fact_sources.reference
      JOIN topics ON topics.id = inbox_messages.topic_id
      WHERE fact_sources.kind = 'turn'
    UNION ALL
    SELECT fact_seq, ops.source, ops.topic_key FROM fact_sources
      JOIN ops ON ops.id = fact_sources.reference
      WHERE fact_sources.kind = 'op')
  JOIN facts ON facts.seq = fact_seq AND facts.unreviewed_in = source || ':' || topic_key)
GROUP BY fact_seq HAVING count(*) = 1;

-- Where a name had one reading, it keeps that one. Where nobody can tell which topic was meant, the fact is seen in none until
-- a person reviews it: a name without a colon is no topic's.
UPDATE facts SET unreviewed_in = coalesce(
  (SELECT new FROM learned_in WHERE fact_seq = seq),
  (SELECT new FROM only_named WHERE old = unreviewed_in),
  CASE instr(substr(unreviewed_in, instr(unreviewed_in, ':') + 1), ':')
    WHEN 0 THEN replace(substr(unreviewed_in, 1, instr(unreviewed_in, ':') - 1), '%', '%25')
      || substr(unreviewed_in, instr(unreviewed_in, ':')) END,
  replace(unreviewed_in, ':', '%3A'))
WHERE unreviewed_in IS NOT NULL;

-- A scope that several topics could be keeps its name for the memory client that gave it, and is unreviewed in no topic. A scope
-- that is no topic's here is a client's alone and stays.
UPDATE facts SET unreviewed_in = coalesce(unreviewed_in, replace(scope_key, ':', '%3A'))
WHERE scope = 'topic' AND (SELECT count(*) FROM named WHERE old = scope_key) > 1;
UPDATE OR IGNORE fact_keys SET scope_key = (SELECT new FROM only_named WHERE old = scope_key)
WHERE scope = 'topic' AND scope_key IN (SELECT old FROM only_named WHERE new <> old);
-- What was damaged before stays damaged.
UPDATE facts SET scope_key = (SELECT new FROM only_named WHERE old = scope_key),
  checksum = CASE checksum WHEN fact_checksum(id, text, scope, scope_key, created_at)
    THEN fact_checksum(id, text, scope, (SELECT new FROM only_named WHERE old = scope_key), created_at)
    ELSE checksum END
WHERE scope = 'topic' AND scope_key IN (SELECT old FROM only_named WHERE new <> old);

-- The journal has the key beside the name, so that there is no doubt about the source.
UPDATE gardener_journal SET facts_json = (
  SELECT json_group_array(json(CASE
    WHEN substr(old, -length(topic_key) - 1) <> ':' || topic_key THEN fact
    WHEN unreviewed_in IS old THEN json_set(fact, '$.topic_name', new, '$.unreviewed_in', new)
    ELSE json_set(fact, '$.topic_name', new) END))
  FROM (
    SELECT fact, old, topic_key, fact ->> '$.unreviewed_in' AS unreviewed_in,
      replace(replace(substr(old, 1, length(old) - length(topic_key) - 1), '%', '%25'), ':', '%3A') || ':' || topic_key AS new
    FROM (
      SELECT value AS fact, coalesce(value ->> '$.topic_name', '') AS old, coalesce(value ->> '$.topic_key', '') AS topic_key
      FROM json_each(facts_json))));

DROP TABLE named;
DROP TABLE only_named;
DROP TABLE learned_in;
