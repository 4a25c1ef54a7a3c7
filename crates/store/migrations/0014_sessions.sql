-- Sessions: each knows the key of the owner that opened it, and a program without a key keeps the source that it claimed first.

-- Digest of the owner's key that opened it; NULL: a connector's key did, or no key at all.
ALTER TABLE connector_sessions ADD COLUMN owner_sha256 BLOB;
-- Nobody knows which key opened those of before, so they are opened anew.
DELETE FROM connector_sessions WHERE key_id IS NULL AND is_keyless = 0;

-- A source that somebody else, or a renamed program, claimed under the same name later; NULL: nobody did.
ALTER TABLE local_connectors ADD COLUMN other_source TEXT;
-- A source that has a key is trusted to nobody without it.
UPDATE local_connectors SET trusted_source = NULL, trusted_at = NULL
WHERE trusted_source IN (SELECT source FROM keys WHERE public_id IS NOT NULL AND revoked_at IS NULL);
