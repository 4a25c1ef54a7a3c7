//! The parts of an iCalendar file that matter here: its events and its own time zones.

use super::line::{ContentLine, LineFault, content_lines};

/// The lines of one event or zone.
#[derive(Debug, Clone, Default)]
pub(super) struct Component {
    /// Where it begins.
    pub(super) line: usize,
    properties: Vec<ContentLine>,
}

/// A zone and its rules, each with its own lines.
#[derive(Debug, Clone, Default)]
pub(super) struct ZoneComponent {
    pub(super) head: Component,
    pub(super) rules: Vec<Component>,
}

#[derive(Debug, Default)]
pub(super) struct Components {
    pub(super) events: Vec<Component>,
    pub(super) zones: Vec<ZoneComponent>,
    /// Lines that could not be read; the rest of the file stands.
    pub(super) faults: Vec<LineFault>,
}

const EVENTS_MAX: usize = 50_000;
const DEPTH_MAX: usize = 8;
const FAULTS_MAX: usize = 20;
/// What an event's lines are kept for; the rest is read past.
const WANTED: &[&str] = &[
    "UID",
    "SUMMARY",
    "DESCRIPTION",
    "LOCATION",
    "STATUS",
    "SEQUENCE",
    "DTSTART",
    "DTEND",
    "DURATION",
    "RRULE",
    "RDATE",
    "EXDATE",
    "RECURRENCE-ID",
    "TZID",
    "X-LIC-LOCATION",
    "TZOFFSETFROM",
    "TZOFFSETTO",
];

impl Component {
    pub(super) fn first(&self, name: &str) -> Option<&ContentLine> {
        self.properties.iter().find(|line| line.name == name)
    }

    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a ContentLine> {
        self.properties.iter().filter(move |line| line.name == name)
    }

    fn opened_at(line: usize) -> Self {
        Self { line, properties: Vec::new() }
    }
}

/// Takes a file apart. Bad lines are set aside; only a file that is no calendar, or whose parts do not close, is refused.
pub(super) fn components(text: &str) -> Result<Components, LineFault> {
    let mut found = Components::default();
    let mut open: Vec<(String, usize)> = Vec::new();
    let mut saw_calendar = false;
    for line in content_lines(text) {
        let line = match line {
            Ok(line) => line,
            Err(fault) if !saw_calendar => return Err(not_a_calendar(fault.line)),
            Err(fault) => {
                if found.faults.len() < FAULTS_MAX {
                    found.faults.push(fault);
                }
                continue;
            }
        };
        match line.name.as_str() {
            "BEGIN" => {
                let name = line.value.trim().to_ascii_uppercase();
                saw_calendar |= name == "VCALENDAR";
                if !saw_calendar {
                    return Err(not_a_calendar(line.number));
                }
                if open.len() == DEPTH_MAX {
                    return Err(line.fault(format!("more than {DEPTH_MAX} parts within each other")));
                }
                begin(&mut found, &open, &name, &line)?;
                open.push((name, line.number));
            }
            "END" => {
                let name = line.value.trim().to_ascii_uppercase();
                match open.pop() {
                    Some((opened, _)) if opened == name => {}
                    Some((opened, at)) => {
                        return Err(line.fault(format!("END:{name} where {opened} of line {at} is open")));
                    }
                    None => return Err(line.fault(format!("END:{name} closes nothing"))),
                }
            }
            _ if !saw_calendar => return Err(not_a_calendar(line.number)),
            name if WANTED.contains(&name) => keep(&mut found, &open, line),
            _ => {}
        }
    }
    match open.last() {
        Some((name, line)) => {
            Err(LineFault { line: *line, text: format!("{name} has no END; the file is cut off") })
        }
        None if !saw_calendar => Err(not_a_calendar(1)),
        None => Ok(found),
    }
}

fn not_a_calendar(line: usize) -> LineFault {
    LineFault { line, text: "not an iCalendar file: it must start with BEGIN:VCALENDAR".to_owned() }
}

fn begin(
    found: &mut Components,
    open: &[(String, usize)],
    name: &str,
    line: &ContentLine,
) -> Result<(), LineFault> {
    let part = Component::opened_at(line.number);
    match (name, open.last().map(|(parent, _)| parent.as_str())) {
        ("VEVENT", Some("VCALENDAR")) if found.events.len() == EVENTS_MAX => {
            return Err(line.fault(format!("more than {EVENTS_MAX} events")));
        }
        ("VEVENT", Some("VCALENDAR")) => found.events.push(part),
        ("VTIMEZONE", Some("VCALENDAR")) => found.zones.push(ZoneComponent { head: part, rules: Vec::new() }),
        ("STANDARD" | "DAYLIGHT", Some("VTIMEZONE")) => {
            found.zones.last_mut().into_iter().for_each(|zone| zone.rules.push(part.clone()));
        }
        _ => {}
    }
    Ok(())
}

fn keep(found: &mut Components, open: &[(String, usize)], line: ContentLine) {
    let component = match open.last().map(|(name, _)| name.as_str()) {
        Some("VEVENT") => found.events.last_mut(),
        Some("VTIMEZONE") => found.zones.last_mut().map(|zone| &mut zone.head),
        Some("STANDARD" | "DAYLIGHT") => found.zones.last_mut().and_then(|zone| zone.rules.last_mut()),
        _ => None,
    };
    if let Some(component) = component {
        component.properties.push(line);
    }
}
