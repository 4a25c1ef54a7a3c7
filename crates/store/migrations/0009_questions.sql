-- What a person was asked, so that every place shows the same, and who holds the lease of a message.

ALTER TABLE pending_approvals ADD COLUMN question TEXT;  -- the words; NULL: asked before they were kept
ALTER TABLE pending_approvals ADD COLUMN preview TEXT;   -- what the tool itself said of the call

ALTER TABLE outbox_messages ADD COLUMN holder TEXT;      -- the connector that polled it, when it gave itself a name
