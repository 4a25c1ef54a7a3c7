-- Room: an answer stands in the outbox and in the history, and nowhere else.

-- The text of this step is the content of this line of the history; NULL: it stands in the body.
ALTER TABLE turn_steps ADD COLUMN text_turn INTEGER;

-- With the content in it every line was stored twice. A history has few lines, and each is now looked up in the table.
DROP INDEX turns_topic;
CREATE INDEX turns_topic ON turns(topic_id, id, role, event_seq);
