-- Names: a channel belongs to one source.

-- Names of the server itself were never a connector's.
DELETE FROM channel_sources WHERE channel <> source
  AND (channel IN ('cli', 'openai', 'system', 'cron', 'router') OR channel GLOB 'local:*' OR channel GLOB 'hook:*');
-- Where several sources were learned to be one channel, it stays with the one that is named after it, else with the one that
-- spoke first. The others are refused under that name until the owner unbinds it.
DELETE FROM channel_sources WHERE source IN (
  SELECT source FROM (
    SELECT source, row_number() OVER (PARTITION BY channel ORDER BY
      substr(source, -length(channel) - 1) = ':' || channel DESC,
      (SELECT min(id) FROM topics WHERE topics.source = channel_sources.source) IS NULL,
      (SELECT min(id) FROM topics WHERE topics.source = channel_sources.source),
      source) AS place
    FROM channel_sources)
  WHERE place > 1);
CREATE UNIQUE INDEX channel_sources_channel ON channel_sources(channel);
