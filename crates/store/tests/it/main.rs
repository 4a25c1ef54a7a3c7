//! The store against real files: each noun's transitions, then what faults and chance do to them.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod approval;
mod backup;
mod channel;
mod checkup;
mod claim;
mod connector;
mod damage;
mod damaged_channel;
mod damaged_fact;
mod damaged_message;
mod damaged_op;
mod damaged_question;
mod damaged_row;
mod damaged_topic;
mod fact;
mod file_damage;
mod full_disk;
mod group_commit;
mod hand_over;
mod history;
mod inbox;
mod limit;
mod mode;
mod op;
mod outbox;
mod plan;
mod poll_order;
mod populated;
mod recovery;
mod room;
mod sequence;
mod size;
mod skill_db;
mod summary;
mod tag;
mod trace;
mod turn;
mod view;
