//! Telegram and its kin: processes that know only the wire.
