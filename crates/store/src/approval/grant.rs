//! Grants: a person allows one exact call again for a while.

use super::{
    ApprovalId, ApprovalKey, Approvals, Duration, GrantId, Millis, StoreError, TopicRef, audit, by_key,
};
use crate::listing::{Listed, Page, PageRequest, ROW_BYTES, read_page};
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

impl Approvals<'_> {
    /// Allows the call of an approval again until `now + lasting`; `None` when there is no such approval.
    pub async fn grant(
        &self,
        id: GrantId,
        of: ApprovalId,
        lasting: Duration,
        now: Millis,
    ) -> Result<Option<GrantId>, StoreError> {
        self.0
            .write(move |connection| {
                let Some(approval) = by_key(connection, &ApprovalKey::Id(of))? else { return Ok(None) };
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
                Ok(Some(id))
            })
            .await
    }

    /// Questions, approvals and grants from a time that has not come yet, because the clock was ahead when they were made,
    /// last from now on as long as they were meant to. Returns how many.
    pub async fn clamp_future(&self, now: Millis) -> Result<usize, StoreError> {
        self.0
            .write(move |connection| {
                let questions = connection.execute(
                    "UPDATE pending_approvals SET expires_at = expires_at - (created_at - ?1), created_at = ?1
                     WHERE status = 'pending' AND created_at > ?1",
                    [now.0],
                )?;
                let approved = connection.execute(
                    "UPDATE pending_approvals SET resolved_at = ?1 WHERE status = 'approved' AND resolved_at > ?1",
                    [now.0],
                )?;
                let grants = connection.execute(
                    "UPDATE approval_grants SET expires_at = expires_at - (created_at - ?1), created_at = ?1
                     WHERE revoked_at IS NULL AND created_at > ?1",
                    [now.0],
                )?;
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
                        "SELECT 1 FROM approval_grants WHERE binding = ?1 AND revoked_at IS NULL AND expires_at > ?2",
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
