//! How a calendar is fetched: once, and later only if it changed.

use super::BYTES_MAX;
use crate::egress::{Egress, FetchRequest, HostPolicy};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// What a server gave to recognise a version by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Validators {
    pub etag: Option<String>,
    pub last_modified: Option<String>,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchedCalendar {
    /// It is the version of the validators.
    Unchanged,
    Changed {
        bytes: Vec<u8>,
        validators: Validators,
    },
}

/// Why nothing came back. The text must not hold the address: a calendar's private address is its key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CalendarFetchError(pub String);

/// The way to a calendar on the net.
#[async_trait]
pub trait CalendarFetch: Send + Sync {
    async fn fetch_calendar(
        &self,
        url: &str,
        known: &Validators,
    ) -> Result<FetchedCalendar, CalendarFetchError>;
}

#[async_trait]
impl CalendarFetch for Egress {
    async fn fetch_calendar(
        &self,
        url: &str,
        known: &Validators,
    ) -> Result<FetchedCalendar, CalendarFetchError> {
        let mut headers = vec![("accept".to_owned(), "text/calendar, text/plain;q=0.5".to_owned())];
        headers.extend(known.etag.iter().map(|etag| ("if-none-match".to_owned(), etag.clone())));
        headers.extend(known.last_modified.iter().map(|at| ("if-modified-since".to_owned(), at.clone())));
        let request = FetchRequest { headers, max_bytes: Some(BYTES_MAX), ..FetchRequest::get(url) };
        let response = self
            .fetch(request, &HostPolicy::AnyPublic)
            .await
            .map_err(|error| CalendarFetchError(error.to_string()))?;
        match response.status {
            200 => {
                let header = |name| response.header(name).map(str::to_owned);
                let validators = Validators { etag: header("etag"), last_modified: header("last-modified") };
                Ok(FetchedCalendar::Changed { validators, bytes: response.body })
            }
            304 => Ok(FetchedCalendar::Unchanged),
            status => Err(CalendarFetchError(format!("the server answered {status}"))),
        }
    }
}
