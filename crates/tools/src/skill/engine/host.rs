//! The native side of a skill's world: what the prelude asks for, bounded for each call.

use super::value;
use super::{EngineWire, StopFlag};
use crate::skill::fetch::{Bytes, SkillRequest};
use crate::skill::tally::{
    FETCHES_AT_ONCE_MAX, FETCHES_MAX, LOG_CHARS_MAX, LOG_LINES_MAX, REQUEST_BYTES_MAX,
};
use crate::skill::wire::{EngineSetup, FromEngine, LogLevel};
use cortex_store::{SkillDb, SkillDbError, SkillDbValue};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rand::RngCore;
use rquickjs::prelude::{Func, Opt};
use rquickjs::{Array, Ctx, Exception, Object, Result, TypedArray, Value};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};
use url::{Url, form_urlencoded, quirks};

const TIMERS_MAX: usize = 1_000;
const RANDOM_BYTES_MAX: usize = 65_536;
const TIMER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// What one engine holds outside its heap. It lives on the engine's thread alone.
pub(super) struct Host {
    send: Rc<dyn Fn(FromEngine)>,
    stop: StopFlag,
    db_path: Option<PathBuf>,
    db: RefCell<Option<SkillDb>>,
    last_op: Cell<u32>,
    timers: RefCell<BTreeSet<(Instant, u32)>>,
    fetching: RefCell<BTreeSet<u32>>,
    fetches: Cell<u32>,
    /// Whether this call wrote to the database.
    has_written: Cell<bool>,
    log_lines: Cell<u32>,
}

impl Host {
    pub(super) fn new(setup: &EngineSetup, wire: &EngineWire) -> Self {
        Self {
            send: Rc::clone(&wire.send),
            stop: wire.stop.clone(),
            db_path: setup.db.clone(),
            db: RefCell::new(None),
            last_op: Cell::new(0),
            timers: RefCell::new(BTreeSet::new()),
            fetching: RefCell::new(BTreeSet::new()),
            fetches: Cell::new(0),
            has_written: Cell::new(false),
            log_lines: Cell::new(0),
        }
    }

    pub(super) fn take_due_timer(&self, now: Instant) -> Option<u32> {
        let mut timers = self.timers.borrow_mut();
        let first = timers.first().copied().filter(|(due, _)| *due <= now)?;
        timers.remove(&first);
        Some(first.1)
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.borrow().first().map(|(due, _)| *due)
    }

    pub(super) fn is_fetching(&self) -> bool {
        !self.fetching.borrow().is_empty()
    }

    pub(super) fn fetched(&self, op: u32) {
        self.fetching.borrow_mut().remove(&op);
    }

    /// Whether this call did something that others can see.
    pub(super) fn has_acted(&self) -> bool {
        self.has_written.get() || self.fetches.get() > 0
    }

    pub(super) fn end_call(&self) {
        self.timers.borrow_mut().clear();
        self.fetching.borrow_mut().clear();
        self.fetches.set(0);
        self.has_written.set(false);
        self.log_lines.set(0);
        let mut db = self.db.borrow_mut();
        if let Some(Err(error)) = db.as_mut().map(SkillDb::end_call) {
            self.log(LogLevel::Warn, &error.to_string());
            *db = None;
        }
    }

    fn next_op(&self) -> u32 {
        self.last_op.set(self.last_op.get().wrapping_add(1));
        self.last_op.get()
    }

    fn timer(&self, ctx: &Ctx<'_>, delay_ms: f64) -> Result<u32> {
        let mut timers = self.timers.borrow_mut();
        if timers.len() >= TIMERS_MAX {
            return Err(Exception::throw_range(ctx, &format!("over {TIMERS_MAX} timers at once")));
        }
        let delay = Duration::try_from_secs_f64(delay_ms / 1_000.0).unwrap_or(TIMER_MAX).min(TIMER_MAX);
        let op = self.next_op();
        timers.insert((Instant::now() + delay, op));
        Ok(op)
    }

    fn fetch(&self, ctx: &Ctx<'_>, request: SkillRequest) -> Result<u32> {
        let mut fetching = self.fetching.borrow_mut();
        if self.fetches.get() >= FETCHES_MAX || fetching.len() >= FETCHES_AT_ONCE_MAX {
            let message = format!("over {FETCHES_MAX} fetches in a call, or {FETCHES_AT_ONCE_MAX} at once");
            return Err(Exception::throw_range(ctx, &message));
        }
        if request.body.as_ref().is_some_and(|body| body.0.len() > REQUEST_BYTES_MAX) {
            return Err(Exception::throw_range(ctx, &format!("the body is over {REQUEST_BYTES_MAX} bytes")));
        }
        self.fetches.set(self.fetches.get() + 1);
        let op = self.next_op();
        fetching.insert(op);
        (self.send)(FromEngine::Fetch { op, request });
        Ok(op)
    }

    fn log(&self, level: LogLevel, text: &str) {
        self.log_lines.set(self.log_lines.get() + 1);
        let text = text.chars().take(LOG_CHARS_MAX).collect();
        (self.send)(FromEngine::Log { level, text });
    }

    fn with_db<T>(
        &self,
        ctx: &Ctx<'_>,
        work: impl FnOnce(&mut SkillDb) -> std::result::Result<T, SkillDbError>,
    ) -> Result<T> {
        let Some(path) = &self.db_path else {
            return Err(Exception::throw_message(
                ctx,
                "skill.json says \"db\": false; this skill has no database",
            ));
        };
        let mut db = self.db.borrow_mut();
        let opened = match db.as_mut() {
            Some(db) => Ok(db),
            None => {
                let stop = self.stop.clone();
                SkillDb::open(path, move || stop.is_raised()).map(|opened| db.insert(opened))
            }
        };
        opened.and_then(work).map_err(|error| Exception::throw_message(ctx, &error.to_string()))
    }
}

/// The object that the prelude is a function of.
pub(super) fn object<'js>(ctx: &Ctx<'js>, host: &Rc<Host>) -> Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    add_outside(&object, host)?;
    add_database(&object, host)?;
    add_text(&object)?;
    add_urls(&object)?;
    Ok(object)
}

fn add_outside<'js>(object: &Object<'js>, host: &Rc<Host>) -> Result<()> {
    let here = Rc::clone(host);
    object.set("timer", Func::from(move |ctx: Ctx<'_>, delay_ms: f64| here.timer(&ctx, delay_ms)))?;
    let here = Rc::clone(host);
    let fetch = move |ctx: Ctx<'js>,
                      method: String,
                      url: String,
                      headers: Array<'js>,
                      body: Opt<Option<TypedArray<'js, u8>>>| {
        let body = body.0.flatten().map(|body| value::bytes(&ctx, &body)).transpose()?.map(Bytes);
        here.fetch(&ctx, SkillRequest { method, url, headers: value::read_pairs(&headers)?, body })
    };
    object.set("fetch", Func::from(fetch))?;
    let here = Rc::clone(host);
    let log = move |level: String, text: rquickjs::String<'js>| -> Result<()> {
        // Looked at first, so that a flood costs no copies.
        if here.log_lines.get() < LOG_LINES_MAX {
            let level = match level.as_str() {
                "debug" => LogLevel::Debug,
                "warn" => LogLevel::Warn,
                "error" => LogLevel::Error,
                _ => LogLevel::Info,
            };
            here.log(level, &text.to_string()?);
        }
        Ok(())
    };
    object.set("log", Func::from(log))?;
    let format_time = |ctx: Ctx<'_>, zone: String, at_ms: f64| {
        time_in(&zone, at_ms).map_err(|reason| Exception::throw_range(&ctx, &reason))
    };
    object.set("formatTime", Func::from(format_time))
}

fn add_database<'js>(object: &Object<'js>, host: &Rc<Host>) -> Result<()> {
    fn params<'js>(ctx: &Ctx<'js>, params: &Array<'js>) -> Result<Vec<SkillDbValue>> {
        params.iter::<Value<'js>>().map(|param| value::to_db(ctx, param?)).collect()
    }
    let here = Rc::clone(host);
    let query = move |ctx: Ctx<'js>, sql: String, bound: Array<'js>| {
        let bound = params(&ctx, &bound)?;
        value::rows(&ctx, here.with_db(&ctx, |db| db.query(&sql, bound))?)
    };
    object.set("query", Func::from(query))?;
    let here = Rc::clone(host);
    let run = move |ctx: Ctx<'js>, sql: String, bound: Array<'js>| {
        let bound = params(&ctx, &bound)?;
        here.has_written.set(true);
        value::change(&ctx, here.with_db(&ctx, |db| db.run(&sql, bound))?)
    };
    object.set("run", Func::from(run))
}

fn add_text<'js>(object: &Object<'js>) -> Result<()> {
    let encode = |ctx: Ctx<'js>, text: String| TypedArray::<u8>::new_copy(ctx, text.as_bytes());
    object.set("encode", Func::from(encode))?;
    let decode = |ctx: Ctx<'js>, data: TypedArray<'js, u8>, is_fatal: bool| {
        let bytes = value::bytes(&ctx, &data)?;
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes);
        match std::str::from_utf8(bytes) {
            Err(_) if is_fatal => Err(Exception::throw_type(&ctx, "the data is not UTF-8")),
            Ok(_) | Err(_) => Ok(String::from_utf8_lossy(bytes).into_owned()),
        }
    };
    object.set("decode", Func::from(decode))?;
    let random = |ctx: Ctx<'js>, length: usize| {
        if length > RANDOM_BYTES_MAX {
            return Err(Exception::throw_range(
                &ctx,
                &format!("over {RANDOM_BYTES_MAX} random bytes at once"),
            ));
        }
        let mut bytes = vec![0; length];
        rand::rng().fill_bytes(&mut bytes);
        TypedArray::<u8>::new_copy(ctx, bytes)
    };
    object.set("random", Func::from(random))?;
    object.set("randomUuid", Func::from(random_uuid))
}

fn add_urls<'js>(object: &Object<'js>) -> Result<()> {
    let parse = |ctx: Ctx<'js>, input: String, base: Opt<Option<String>>| {
        let parsed = match base.0.flatten() {
            Some(base) => Url::parse(&base).and_then(|base| base.join(&input)),
            None => Url::parse(&input),
        };
        parsed
            .map(String::from)
            .map_err(|error| Exception::throw_type(&ctx, &format!("invalid URL: {error}")))
    };
    object.set("parseUrl", Func::from(parse))?;
    object.set("urlPart", Func::from(|href: String, part: String| url_part(&href, &part)))?;
    let change = |href: String, part: String, value: String| changed_url(href, &part, &value);
    object.set("changeUrl", Func::from(change))?;
    let parse_form = |ctx: Ctx<'js>, text: String| {
        value::pairs(&ctx, form_urlencoded::parse(text.as_bytes()).into_owned())
    };
    object.set("parseForm", Func::from(parse_form))?;
    let write_form = |pairs: Array<'js>| -> Result<String> {
        Ok(form_urlencoded::Serializer::new(String::new()).extend_pairs(value::read_pairs(&pairs)?).finish())
    };
    object.set("writeForm", Func::from(write_form))
}

fn url_part(href: &str, part: &str) -> String {
    let Ok(url) = Url::parse(href) else { return String::new() };
    match part {
        "origin" => quirks::origin(&url),
        "protocol" => quirks::protocol(&url).to_owned(),
        "username" => quirks::username(&url).to_owned(),
        "password" => quirks::password(&url).to_owned(),
        "host" => quirks::host(&url).to_owned(),
        "hostname" => quirks::hostname(&url).to_owned(),
        "port" => quirks::port(&url).to_owned(),
        "pathname" => quirks::pathname(&url).to_owned(),
        "search" => quirks::search(&url).to_owned(),
        _ => quirks::hash(&url).to_owned(),
    }
}

/// As the setters of `URL` in a browser: a value that does not fit changes nothing.
fn changed_url(href: String, part: &str, value: &str) -> String {
    let Ok(mut url) = Url::parse(&href) else { return href };
    let changed = match part {
        "protocol" => quirks::set_protocol(&mut url, value),
        "username" => quirks::set_username(&mut url, value),
        "password" => quirks::set_password(&mut url, value),
        "host" => quirks::set_host(&mut url, value),
        "hostname" => quirks::set_hostname(&mut url, value),
        "port" => quirks::set_port(&mut url, value),
        "pathname" => {
            quirks::set_pathname(&mut url, value);
            Ok(())
        }
        "search" => {
            quirks::set_search(&mut url, value);
            Ok(())
        }
        _ => {
            quirks::set_hash(&mut url, value);
            Ok(())
        }
    };
    if changed.is_ok() { url.into() } else { href }
}

fn time_in(zone: &str, at_ms: f64) -> std::result::Result<String, String> {
    let at = Timestamp::from_millisecond(at_ms as i64).map_err(|error| error.to_string())?;
    let zone = TimeZone::get(zone)
        .map_err(|_| format!("{zone:?} is no time zone; use a name such as Europe/Berlin"))?;
    Ok(at.to_zoned(zone).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string())
}

fn random_uuid() -> String {
    let mut bytes = [0; 16];
    rand::rng().fill_bytes(&mut bytes);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_in_its_zone() {
        assert_eq!(time_in("Europe/Berlin", 1_785_146_400_000.0).unwrap(), "2026-07-27T12:00:00+02:00");
        assert!(time_in("Mars/Olympus", 0.0).unwrap_err().contains("no time zone"));
    }

    #[test]
    fn the_parts_of_a_url_change_as_in_a_browser() {
        let href = "https://a.org/x?q=1#h".to_owned();
        assert_eq!(url_part(&href, "search"), "?q=1");
        assert_eq!(changed_url(href.clone(), "hostname", "b.org"), "https://b.org/x?q=1#h");
        assert_eq!(changed_url(href.clone(), "port", "no port"), href);
    }

    #[test]
    fn a_uuid_is_random_and_says_its_version() {
        let (one, other) = (random_uuid(), random_uuid());
        assert_ne!(one, other);
        assert_eq!((one.len(), &one[14..15]), (36, "4"));
    }
}
