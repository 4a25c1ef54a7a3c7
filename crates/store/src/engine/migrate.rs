//! Versioned migrations: one transaction, a backup before, and no way back to an older binary.

use crate::{StoreError, engine::checksum};
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use std::path::{Path, PathBuf};

/// Marks the file as ours ("Ctex"), so that a foreign database in the home is refused, not changed.
const APPLICATION_ID: i32 = 0x4374_6578;

/// Added to, never edited; the position is the version.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/0001_spine.sql"),
    include_str!("../../migrations/0002_hands.sql"),
    include_str!("../../migrations/0003_memory.sql"),
    include_str!("../../migrations/0004_session.sql"),
    include_str!("../../migrations/0005_gardener.sql"),
    include_str!("../../migrations/0006_doors.sql"),
    include_str!("../../migrations/0007_turn_order.sql"),
    include_str!("../../migrations/0008_speaker.sql"),
    include_str!("../../migrations/0009_questions.sql"),
    include_str!("../../migrations/0010_untrusted.sql"),
    include_str!("../../migrations/0011_names.sql"),
    include_str!("../../migrations/0012_room.sql"),
    include_str!("../../migrations/0013_topics.sql"),
    include_str!("../../migrations/0014_sessions.sql"),
    include_str!("../../migrations/0015_strangers.sql"),
    include_str!("../../migrations/0016_own_words.sql"),
    include_str!("../../migrations/0017_processing.sql"),
];

/// Why a database could not be brought to this binary's schema.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    #[error("the database has schema {found}, newer than this program's {known}; use the newer program")]
    Newer { found: usize, known: usize },
    #[error("this is not a Cortex database (application id {0:#x}); move it away or choose another home")]
    Foreign(i32),
    #[error("cannot write the backup {}: {reason}", path.display())]
    Backup { path: PathBuf, reason: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Brings the database at `path` to the newest schema.
pub(crate) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), MigrateError> {
    migrate_with(connection, path, MIGRATIONS)
}

fn migrate_with(connection: &mut Connection, path: &Path, migrations: &[&str]) -> Result<(), MigrateError> {
    let found = version(connection)?;
    if found > migrations.len() {
        return Err(MigrateError::Newer { found, known: migrations.len() });
    }
    refuse_foreign(connection, found)?;
    if found == migrations.len() {
        return Ok(check_schema(connection, migrations)?);
    }
    if found > 0 {
        back_up(connection, path, found)?;
    }
    add_functions(connection)?;
    let transaction = connection.transaction().map_err(StoreError::from)?;
    for migration in &migrations[found..] {
        transaction.execute_batch(migration).map_err(StoreError::from)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(StoreError::from)?;
    transaction.pragma_update(None, "user_version", migrations.len()).map_err(StoreError::from)?;
    transaction.commit().map_err(StoreError::from)?;
    Ok(())
}

/// Whether a database that nobody is to change is ours and of a schema that a start can use; its version.
pub(crate) fn inspect(connection: &Connection) -> Result<usize, MigrateError> {
    let found = version(connection)?;
    if found > MIGRATIONS.len() {
        return Err(MigrateError::Newer { found, known: MIGRATIONS.len() });
    }
    refuse_foreign(connection, found)?;
    if found == MIGRATIONS.len() {
        check_schema(connection, MIGRATIONS)?;
    }
    Ok(found)
}

/// The schema that a database has, and the newest that this program knows.
pub(crate) fn versions(connection: &Connection) -> Result<(usize, usize), StoreError> {
    Ok((version(connection)?, MIGRATIONS.len()))
}

fn version(connection: &Connection) -> Result<usize, StoreError> {
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    Ok(usize::try_from(version).unwrap_or(usize::MAX))
}

fn refuse_foreign(connection: &Connection, version: usize) -> Result<(), MigrateError> {
    let id: i32 =
        connection.query_row("PRAGMA application_id", [], |row| row.get(0)).map_err(StoreError::from)?;
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(StoreError::from)?;
    let ours = id == APPLICATION_ID || (id == 0 && version == 0 && tables == 0);
    if ours { Ok(()) } else { Err(MigrateError::Foreign(id)) }
}

/// A flipped bit in the schema changes what every later write means, so it is compared with what we would make.
/// Objects that others added, such as statistics, are none of ours.
fn check_schema(connection: &Connection, migrations: &[&str]) -> Result<(), StoreError> {
    let fresh = Connection::open_in_memory()?;
    add_functions(&fresh)?;
    for migration in migrations {
        fresh.execute_batch(migration)?;
    }
    let found = schema_of(connection)?;
    match schema_of(&fresh)?.into_iter().find(|object| !found.contains(object)) {
        None => Ok(()),
        Some((kind, name, ..)) => {
            Err(StoreError::Damaged(format!("the {kind} {name} is not as it was made")))
        }
    }
}

/// What migrations call: a fact that gets another scope needs another checksum.
fn add_functions(connection: &Connection) -> Result<(), StoreError> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("fact_checksum", 5, flags, |call| {
        let (id, text): (String, String) = (call.get(0)?, call.get(1)?);
        let (scope, scope_key): (String, String) = (call.get(2)?, call.get(3)?);
        Ok(checksum::of(&[&id, &text, &scope, &scope_key], &[call.get(4)?]))
    })?;
    Ok(())
}

type SchemaObject = (String, String, String, Option<String>);

fn schema_of(connection: &Connection) -> Result<Vec<SchemaObject>, StoreError> {
    let mut objects = connection.prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema")?;
    let objects = objects.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    Ok(objects.collect::<Result<_, _>>()?)
}

fn back_up(connection: &Connection, path: &Path, version: usize) -> Result<(), MigrateError> {
    let target = path.with_extension(format!("db.before-schema-{}", version + 1));
    let failed = |reason: String| MigrateError::Backup { path: target.clone(), reason };
    if target.exists() {
        std::fs::remove_file(&target).map_err(|error| failed(error.to_string()))?;
    }
    connection
        .backup("main", &target, None::<fn(rusqlite::backup::Progress)>)
        .map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: &str = "ALTER TABLE audit ADD COLUMN who TEXT";

    fn home_with_rows() -> (tempfile::TempDir, PathBuf, Connection) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cortex.db");
        let mut connection = Connection::open(&path).unwrap();
        migrate(&mut connection, &path).unwrap();
        connection
            .execute("INSERT INTO audit(at, what, subject, detail) VALUES (1, 'a', 'b', 'c')", [])
            .unwrap();
        (folder, path, connection)
    }

    fn audit_rows(connection: &Connection) -> i64 {
        connection.query_row("SELECT count(*) FROM audit", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn an_upgrade_keeps_rows_and_leaves_a_backup() {
        let (folder, path, mut connection) = home_with_rows();
        let next = [MIGRATIONS, &[NEXT]].concat();
        migrate_with(&mut connection, &path, &next).unwrap();
        assert_eq!(audit_rows(&connection), 1);
        let backup = folder.path().join(format!("cortex.db.before-schema-{}", MIGRATIONS.len() + 1));
        assert_eq!(audit_rows(&Connection::open(backup).unwrap()), 1);
    }

    #[test]
    fn a_channel_that_several_sources_took_stays_with_the_one_it_is_named_after() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cortex.db");
        let mut connection = Connection::open(&path).unwrap();
        migrate_with(&mut connection, &path, &MIGRATIONS[..10]).unwrap();
        let rows = "INSERT INTO topics(source, topic_key) VALUES ('urn:a', 'x'), ('urn:connector:m', 'x'), ('urn:b', 'x');
            INSERT INTO channel_sources(source, channel) VALUES ('urn:a', 'm'), ('urn:connector:m', 'm'),
              ('urn:b', 'n'), ('urn:c', 'n'), ('urn:d', 'cli'), ('telegram', 'telegram')";
        connection.execute_batch(rows).unwrap();
        migrate(&mut connection, &path).unwrap();
        let mut kept = connection
            .prepare("SELECT source || ' ' || channel FROM channel_sources ORDER BY source")
            .unwrap();
        let kept: Vec<String> = kept.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(kept, ["telegram telegram", "urn:b n", "urn:connector:m m"]);
    }

    /// Two topics that had one name, and some that had their own.
    const TOPICS: [(&str, &str); 6] = [
        ("a:b", "c"),
        ("a", "b:c"),
        ("local:x", "home"),
        ("matrix", "!room:server"),
        ("50%", "off"),
        ("telegram", "1"),
    ];

    /// A database of the schema before, with facts of these topics as they were named then.
    fn named_by_colons() -> (tempfile::TempDir, PathBuf, Connection) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cortex.db");
        let mut connection = Connection::open(&path).unwrap();
        migrate_with(&mut connection, &path, &MIGRATIONS[..12]).unwrap();
        for (source, key) in TOPICS {
            connection
                .execute("INSERT INTO topics(source, topic_key) VALUES (?1, ?2)", [source, key])
                .unwrap();
        }
        let rows = "INSERT INTO inbox_messages(id, source, external_message_id, topic_key, user_id, text, occurred_at,
              idempotency_key, created_at, updated_at, topic_id, checksum)
            SELECT 'evt' || id, source, id, topic_key, 'u', 't', 1, id, 1, 1, id, 0 FROM topics;
            INSERT INTO ops(id, type, description, dispatched_at, source, topic_key, user_id)
              VALUES ('op1', 't', 'd', 1, 'a', 'b:c', 'u');
            INSERT INTO gardener_journal(name, position, facts_json, created_at) VALUES ('extracted', 1,
              '[{\"content\":\"x\",\"topic_key\":\"c\",\"topic_name\":\"a:b:c\",\"unreviewed_in\":\"a:b:c\"},' ||
              '{\"content\":\"y\",\"topic_key\":\"b:c\",\"topic_name\":\"a:b:c\",\"unreviewed_in\":null},' ||
              '{\"content\":\"z\",\"topic_key\":\"old\"}]', 1)";
        connection.execute_batch(rows).unwrap();
        (folder, path, connection)
    }

    fn add_fact(connection: &Connection, text: &str, scope_key: &str, unreviewed_in: Option<&str>) -> i64 {
        let scope = if scope_key.is_empty() { "global" } else { "topic" };
        let sum = checksum::of(&[text, text, scope, scope_key], &[7]);
        connection
            .execute(
                "INSERT INTO facts(id, text, scope, scope_key, created_at, updated_at, last_accessed_at, checksum,
                   unreviewed_in) VALUES (?1, ?1, ?2, ?3, 7, 7, 7, ?4, ?5)",
                rusqlite::params![text, scope, scope_key, sum, unreviewed_in],
            )
            .unwrap();
        let seq = connection.last_insert_rowid();
        let key = "INSERT INTO fact_keys(scope, scope_key, idempotency_key, fact_seq, is_own) VALUES (?1, ?2, ?3, ?4, 1)";
        connection.execute(key, rusqlite::params![scope, scope_key, text, seq]).unwrap();
        seq
    }

    fn add_source(connection: &Connection, seq: i64, kind: &str, reference: &str) {
        let sql = "INSERT INTO fact_sources(fact_seq, number, kind, reference, text, at) VALUES (?1, 1, ?2, ?3, 't', 1)";
        connection.execute(sql, rusqlite::params![seq, kind, reference]).unwrap();
    }

    #[test]
    fn facts_follow_their_topics_to_names_that_no_two_share() {
        let (_folder, path, mut connection) = named_by_colons();
        let of_turn = add_fact(&connection, "of a turn", "", Some("a:b:c"));
        add_source(&connection, of_turn, "turn", "evt1");
        let of_op = add_fact(&connection, "of an op", "", Some("a:b:c"));
        add_source(&connection, of_op, "op", "op1");
        for (text, scope_key, unreviewed_in) in [
            ("of nobody knows", "", Some("a:b:c")),
            ("of the only one", "", Some("local:x:home")),
            ("of a room", "", Some("matrix:!room:server")),
            ("of a percent", "", Some("50%:off")),
            ("of a topic that went, one reading", "", Some("slack:C1")),
            ("of a topic that went, two readings", "", Some("matrix:!gone:server")),
            ("scope of one", "local:x:home", None),
            ("scope of two", "a:b:c", None),
            ("scope of a chat", "telegram:1", None),
            ("scope of a client", "project:one:two", None),
        ] {
            add_fact(&connection, text, scope_key, unreviewed_in);
        }
        connection.execute("UPDATE facts SET checksum = 0 WHERE id = 'scope of a client'", []).unwrap();
        let damaged = add_fact(&connection, "damaged", "local:x:home", None);
        connection.execute("UPDATE facts SET checksum = 5 WHERE seq = ?1", [damaged]).unwrap();
        migrate(&mut connection, &path).unwrap();

        let mut rows = connection
            .prepare("SELECT facts.id || ': ' || facts.scope_key || ' ' || coalesce(unreviewed_in, '-'), facts.checksum =
                 fact_checksum(id, text, facts.scope, facts.scope_key, created_at), facts.scope_key = fact_keys.scope_key
               FROM facts JOIN fact_keys ON fact_seq = seq ORDER BY seq")
            .unwrap();
        let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        let rows: Vec<(String, bool, bool)> = rows.map(Result::unwrap).collect();
        let whole = |text: &str| (text.to_owned(), true, true);
        let broken = |text: &str| (text.to_owned(), false, true);
        let expected = [
            whole("of a turn:  a%3Ab:c"),
            whole("of an op:  a:b:c"),
            whole("of nobody knows:  a%3Ab%3Ac"),
            whole("of the only one:  local%3Ax:home"),
            whole("of a room:  matrix:!room:server"),
            whole("of a percent:  50%25:off"),
            whole("of a topic that went, one reading:  slack:C1"),
            whole("of a topic that went, two readings:  matrix%3A!gone%3Aserver"),
            whole("scope of one: local%3Ax:home -"),
            whole("scope of two: a:b:c a%3Ab%3Ac"),
            whole("scope of a chat: telegram:1 -"),
            broken("scope of a client: project:one:two -"),
            broken("damaged: local%3Ax:home -"),
        ];
        assert_eq!(rows, expected);
        let journal: String =
            connection.query_row("SELECT facts_json FROM gardener_journal", [], |row| row.get(0)).unwrap();
        assert_eq!(
            journal,
            r#"[{"content":"x","topic_key":"c","topic_name":"a%3Ab:c","unreviewed_in":"a%3Ab:c"},{"content":"y","topic_key":"b:c","topic_name":"a:b:c","unreviewed_in":null},{"content":"z","topic_key":"old"}]"#
        );
        for (source, key) in TOPICS {
            let topic = cortex_types::TopicRef { source: source.to_owned(), topic_key: key.to_owned() };
            let name = cortex_types::FactScope::topic_name(&topic);
            let seen: Vec<&String> =
                rows.iter().map(|(row, ..)| row).filter(|row| row.ends_with(&format!(" {name}"))).collect();
            assert!(seen.len() <= 1, "{name}: {seen:?}");
        }
    }

    #[test]
    fn an_older_program_refuses_a_newer_schema() {
        let (_folder, path, mut connection) = home_with_rows();
        let next = [MIGRATIONS, &[NEXT]].concat();
        migrate_with(&mut connection, &path, &next).unwrap();
        let refused = migrate(&mut connection, &path);
        assert!(matches!(refused, Err(MigrateError::Newer { .. })), "{refused:?}");
    }

    #[test]
    fn a_failed_migration_changes_nothing() {
        let (_folder, path, mut connection) = home_with_rows();
        let broken = [MIGRATIONS, &[NEXT, "CREATE TABLE nonsense("]].concat();
        assert!(migrate_with(&mut connection, &path, &broken).is_err());
        assert_eq!(version(&connection), Ok(MIGRATIONS.len()));
        assert!(connection.prepare("SELECT who FROM audit").is_err());
    }

    #[test]
    fn a_changed_schema_is_damage() {
        let (_folder, path, mut connection) = home_with_rows();
        migrate(&mut connection, &path).unwrap();
        connection.execute_batch("CREATE INDEX somebody_elses ON audit(at)").unwrap();
        migrate(&mut connection, &path).unwrap();
        connection.execute_batch("DROP INDEX inbox_pending").unwrap();
        let refused = migrate(&mut connection, &path);
        assert!(matches!(refused, Err(MigrateError::Store(StoreError::Damaged(_)))), "{refused:?}");
    }

    #[test]
    fn a_foreign_database_is_refused_untouched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cortex.db");
        let mut connection = Connection::open(&path).unwrap();
        connection.execute_batch("CREATE TABLE notes(text)").unwrap();
        let refused = migrate(&mut connection, &path);
        assert!(matches!(refused, Err(MigrateError::Foreign(0))), "{refused:?}");
    }
}
