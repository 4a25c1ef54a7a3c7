//! Grants: a person allows one exact call again for a while.

use super::{
    ApprovalId, ApprovalKey, ApprovalStatus, Approvals, Duration, GrantId, Millis, StoreError, TopicRef,
    audit, by_key,
};
use crate::engine::listing::{Listed, Page, PageRequest, ROW_BYTES, read_page};
use rusqlite::{OptionalExtension, Row, params};

/// A time-boxed permission for one exact call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub id: GrantId,
    pub tool_name: String,
    pub tool_arguments_json: String,
    pub topic: TopicRef,
    pub user_id: String,
    pub created_at: Millis,
    pub expires_at: Millis,
    pub revoked_at: Option<Millis>,
}

/// What came of asking for a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Granted {
    Made(GrantId),
    /// A person said no to exactly this call.
    Denied,
    /// There is no such approval.
    Unknown,
}

impl Approvals<'_> {
    /// Allows the call of an approval again until `now + lasting`.
    pub async fn grant(
        &self,
        id: GrantId,
        of: ApprovalId,
        lasting: Duration,
        now: Millis,
    ) -> Result<Granted, StoreError> {
        self.0
            .write(move |connection| {
                let Some(approval) = by_key(connection, &ApprovalKey::Id(of))? else { return Ok(Granted::Unknown) };
                if approval.status == ApprovalStatus::Denied {
                    return Ok(Granted::Denied);
                }
                connection
                    .prepare_cached(
                        "INSERT INTO approval_grants(id, binding, tool_name, tool_arguments_json, source, topic_key,
                           user_id, created_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                    )?
                    .execute(params![
                        id.as_str(),
                        approval.binding,
                        approval.tool_name,
                        approval.tool_arguments_json,
                        approval.topic.source,
                        approval.topic.topic_key,
                        approval.user_id,
                        now.0,
                        now.after(lasting).0,
                    ])?;
                audit::record(connection, now, "grant_made", id.as_str(), approval.id.as_str())?;
                Ok(Granted::Made(id))
            })
            .await
    }

    /// Questions, approvals and grants from a time that has not come yet, because the clock was ahead when they were made,
    /// last from now on as long as they were meant to. What has a time that cannot be read is over. Returns how many.
    pub async fn clamp_future(&self, now: Millis) -> Result<usize, StoreError> {
        self.0
            .write(move |connection| {
                let questions =
                    connection.execute(&clamp("pending_approvals", "status = 'pending'"), [now.0])?;
                // Text is greater than every number: an approval of nobody knows when would be one of just now.
                let approved = connection.execute(
                    "UPDATE pending_approvals SET resolved_at = iif(typeof(resolved_at) = 'integer', ?1, 0)
                     WHERE status = 'approved' AND (resolved_at > ?1 OR typeof(resolved_at) <> 'integer')",
                    [now.0],
                )?;
                let grants = connection.execute(&clamp("approval_grants", "revoked_at IS NULL"), [now.0])?;
                Ok(questions + approved + grants)
            })
            .await
    }

    /// Whether a live grant covers exactly this call.
    pub async fn is_granted(&self, binding: [u8; 32], now: Millis) -> Result<bool, StoreError> {
        self.0
            .read(move |connection| {
                let found = connection
                    .prepare_cached(
                        "SELECT 1 FROM approval_grants WHERE binding = ?1 AND revoked_at IS NULL AND expires_at > ?2
                           AND typeof(expires_at) = 'integer'",
                    )?
                    .query_row(params![binding, now.0], |_| Ok(()))
                    .optional()?;
                Ok(found.is_some())
            })
            .await
    }

    /// Ends a grant; false when there is no live one of this id.
    pub async fn revoke(&self, id: GrantId, now: Millis) -> Result<bool, StoreError> {
        self.0
            .write(move |connection| {
                let revoked = connection
                    .prepare_cached(
                        "UPDATE approval_grants SET revoked_at = ?2
                         WHERE id = ?1 AND revoked_at IS NULL AND expires_at > ?2",
                    )?
                    .execute(params![id.as_str(), now.0])?;
                if revoked == 1 {
                    audit::record(connection, now, "grant_revoked", id.as_str(), "")?;
                }
                Ok(revoked == 1)
            })
            .await
    }

    /// Newest first.
    pub async fn grants(&self, page: PageRequest) -> Result<Page<Grant>, StoreError> {
        self.0
            .read(move |connection| {
                let (before, limit) = page.bounds();
                let mut statement = connection.prepare_cached(
                    "SELECT id, tool_name, tool_arguments_json, source, topic_key, user_id, created_at, expires_at,
                       revoked_at, rowid FROM approval_grants WHERE rowid < ?1 ORDER BY rowid DESC LIMIT ?2",
                )?;
                let rows = statement.query_map([before, limit], |row| {
                    let place = row.get(9)?;
                    Ok(read(row).map(|grant| ListedGrant { place, grant }))
                })?;
                let Page { rows, next_before } = read_page(rows.map(|row| row?), limit)?;
                Ok(Page { rows: rows.into_iter().map(|listed| listed.grant).collect(), next_before })
            })
            .await
    }
}

/// Moves what was made in the future to now, and ends now what has a time that is no number: it would sort behind all that
/// are, and never come.
fn clamp(table: &str, is_open: &str) -> String {
    let are_numbers = "typeof(created_at) = 'integer' AND typeof(expires_at) = 'integer'";
    format!(
        "UPDATE {table} SET expires_at = iif({are_numbers}, expires_at - (created_at - ?1), ?1),
           created_at = iif({are_numbers} OR typeof(created_at) <> 'integer', ?1, created_at)
         WHERE {is_open} AND (created_at > ?1 OR NOT ({are_numbers}))"
    )
}

struct ListedGrant {
    place: i64,
    grant: Grant,
}

impl Listed for ListedGrant {
    fn place(&self) -> i64 {
        self.place
    }

    fn bytes(&self) -> usize {
        ROW_BYTES + self.grant.tool_arguments_json.len()
    }
}

fn read(row: &Row<'_>) -> Result<Grant, StoreError> {
    let id: String = row.get(0)?;
    Ok(Grant {
        id: id.parse().map_err(|error| StoreError::Damaged(format!("grant: {error}")))?,
        tool_name: row.get(1)?,
        tool_arguments_json: row.get(2)?,
        topic: TopicRef { source: row.get(3)?, topic_key: row.get(4)? },
        user_id: row.get(5)?,
        created_at: Millis(row.get(6)?),
        expires_at: Millis(row.get(7)?),
        revoked_at: row.get::<_, Option<i64>>(8)?.map(Millis),
    })
}
