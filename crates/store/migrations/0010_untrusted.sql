-- Untrusted text: exchanges that read it, facts that nobody has looked at, and questions that stand in the history.

ALTER TABLE turns ADD COLUMN untrusted INTEGER NOT NULL DEFAULT 0;          -- 1: its turn had read what others wrote
ALTER TABLE turn_summaries ADD COLUMN untrusted INTEGER NOT NULL DEFAULT 0; -- 1: so had one of the turns it covers
ALTER TABLE facts ADD COLUMN unreviewed_in TEXT;                            -- NULL: reviewed; else the one topic that sees it
CREATE INDEX facts_unreviewed ON facts(seq) WHERE unreviewed_in IS NOT NULL;
ALTER TABLE pending_approvals ADD COLUMN turn_id INTEGER;                   -- the line of the history that says it was asked

-- Reading a history still needs the index alone.
DROP INDEX turns_topic;
CREATE INDEX turns_topic ON turns(topic_id, id, role, content, timestamp, tokens, attachments, checksum, event_seq, untrusted);
