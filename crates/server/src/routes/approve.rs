//! `/approve/{id}`: one question on a page without script; looking at it decides nothing.

use crate::body::read;
use crate::guard::Peer;
use crate::openai::SOURCE;
use crate::path_id::PathId;
use crate::state::AppState;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use cortex_store::{Resolved, StoreError};
use cortex_types::{Approval, ApprovalStatus, Decision};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, StatusCode};
use std::time::Duration;

/// A line that is not wrapped can go on where nobody looks.
const STYLE: &str = "pre{white-space:pre-wrap;overflow-wrap:anywhere}";
/// Of that style alone, by its hash.
const POLICY: &str = "default-src 'none'; style-src 'sha256-fArvR43yIfabz0J/V8rC5WX+ia19oPQgAC4yxBikbb4='; \
    form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The form holds one word.
const FORM_BYTES_MAX: usize = 1_024;

/// The question that a token was made for.
#[utoipa::path(get, path = "/approve/{id}", tag = "approval", security(()), params(("id" = String, Path, description = "The token")),
    responses(
    (status = 200, body = String, content_type = "text/html"),
    (status = 404, body = String, content_type = "text/html", description = "No such question"),
    (status = 410, body = String, content_type = "text/html", description = "Answered or expired"),
    (status = 429, body = String, content_type = "text/html", description = "Too many guesses"),
))]
pub(crate) async fn show(
    State(app): State<AppState>,
    peer: Option<Extension<Peer>>,
    PathId(token): PathId,
) -> Response {
    let page = match asked_here(&app, &token).await {
        Ok(Some(asked)) if is_open(&app, &asked) => question(&app, &asked),
        Ok(Some(_)) => Page::closed(),
        Ok(None) => Page::unknown(&app, peer),
        Err(error) => Page::failed(&error),
    };
    page.into_response()
}

/// The question of a token, if it was asked at the door that hands out this link: elsewhere a press needs its person.
async fn asked_here(app: &AppState, token: &str) -> Result<Option<Approval>, StoreError> {
    let asked = app.runtime.approvals().of_token(token).await?;
    Ok(asked.filter(|asked| asked.topic.source == SOURCE))
}

/// Answer as the person who was asked.
#[utoipa::path(post, path = "/approve/{id}", tag = "approval", security(()), params(("id" = String, Path, description = "The token")),
    request_body(content = String, content_type = "application/x-www-form-urlencoded", description = "`decision=approve` or `decision=deny`"),
    responses(
    (status = 200, body = String, content_type = "text/html"),
    (status = 400, body = String, content_type = "text/html", description = "No decision"),
    (status = 404, body = String, content_type = "text/html", description = "No such question"),
    (status = 410, body = String, content_type = "text/html", description = "Answered or expired"),
    (status = 429, body = String, content_type = "text/html", description = "Too many guesses"),
))]
pub(crate) async fn decide(
    State(app): State<AppState>,
    peer: Option<Extension<Peer>>,
    PathId(token): PathId,
    body: Body,
) -> Response {
    // Before the body: who only guesses holds no place while he sends it.
    match asked_here(&app, &token).await {
        Ok(Some(_)) => {}
        Ok(None) => return Page::unknown(&app, peer).into_response(),
        Err(error) => return Page::failed(&error).into_response(),
    }
    let form = read(body, FORM_BYTES_MAX).await.unwrap_or_default();
    let decision = match &*form {
        b"decision=approve" => Decision::Approved,
        b"decision=deny" => Decision::Denied,
        _ => {
            return Page::new(StatusCode::BAD_REQUEST, "Nothing was decided", "Approve or deny.")
                .into_response();
        }
    };
    let page = match app.runtime.approvals().decide_by_token(&token, decision).await {
        Ok(Resolved::Decided { approval, .. }) => decided(&approval),
        Ok(Resolved::Already(_) | Resolved::Expired(_) | Resolved::NotYours) => Page::closed(),
        Ok(Resolved::Unknown) => Page::unknown(&app, peer),
        Err(error) => Page::failed(&error),
    };
    page.into_response()
}

fn is_open(app: &AppState, asked: &Approval) -> bool {
    asked.status == ApprovalStatus::Pending && asked.expires_at > app.clock.now()
}

fn question(app: &AppState, asked: &Approval) -> Page {
    let question = app.runtime.approvals().question(asked);
    let (words, verbatim) = (escaped(&question.words), escaped(&question.verbatim));
    let tool = escaped(&asked.tool_name);
    let form = "<form method=\"post\"><button name=\"decision\" value=\"approve\">Approve</button> \
        <button name=\"decision\" value=\"deny\">Deny</button></form>";
    Page {
        status: StatusCode::OK,
        title: "A question",
        html: format!("<p>{}</p>\n<p>{tool}</p>\n<pre>{verbatim}</pre>\n{form}", words.replace('\n', "<br>")),
        retry_after: None,
    }
}

fn decided(approval: &Approval) -> Page {
    let (tool, status) = (escaped(&approval.tool_name), approval.status);
    let html = format!("<p>{tool}: {status}. What it comes to is told in the conversation.</p>");
    Page { status: StatusCode::OK, title: "Answered", html, retry_after: None }
}

struct Page {
    status: StatusCode,
    title: &'static str,
    html: String,
    retry_after: Option<Duration>,
}

impl Page {
    fn new(status: StatusCode, title: &'static str, line: &str) -> Self {
        Self { status, title, html: format!("<p>{line}</p>"), retry_after: None }
    }

    /// Says nothing about what the question was.
    fn closed() -> Self {
        Self::new(StatusCode::GONE, "No open question", "It was answered, or its time is over.")
    }

    /// A token nobody made was guessed, and costs like a wrong key.
    fn unknown(app: &AppState, peer: Option<Extension<Peer>>) -> Self {
        let retry_after = peer.and_then(|Extension(Peer(peer))| app.keys.charge_for(peer));
        let page = match retry_after {
            None => Self::new(StatusCode::NOT_FOUND, "No such question", "This link leads nowhere."),
            Some(_) => Self::new(StatusCode::TOO_MANY_REQUESTS, "Too many tries", "Come back later."),
        };
        Self { retry_after, ..page }
    }

    fn failed(error: &StoreError) -> Self {
        tracing::error!(%error, "A question could not be read or answered");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "Not now", "The server cannot read its disk; try again.")
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        let Self { status, title, html, retry_after } = self;
        let page = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title><style>{STYLE}</style></head>\n\
             <body><h1>{title}</h1>\n{html}\n</body></html>\n"
        );
        let headers = [
            (CONTENT_TYPE, "text/html; charset=utf-8"),
            (CACHE_CONTROL, "no-store"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            // Nobody else learns the address. With no-referrer the form's own Origin would be null, and refused.
            (REFERRER_POLICY, "same-origin"),
            (CONTENT_SECURITY_POLICY, POLICY),
        ];
        let mut response = (status, headers, page).into_response();
        if let Some(wait) = retry_after {
            let seconds = HeaderValue::from(wait.as_secs().max(1));
            response.headers_mut().insert(RETRY_AFTER, seconds);
        }
        response
    }
}

fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            other => html.push(other),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::escaped;
    use super::{POLICY, STYLE};
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use sha2::{Digest, Sha256};

    #[test]
    fn nothing_that_was_asked_becomes_markup() {
        assert_eq!(escaped("<a href=\"x\">'&"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;");
    }

    #[test]
    fn the_page_allows_its_own_style_and_no_other() {
        let hash = STANDARD.encode(Sha256::digest(STYLE));
        assert!(POLICY.contains(&format!("style-src 'sha256-{hash}';")), "{hash}");
    }

    proptest::proptest! {
        #[test]
        fn the_page_shows_every_character_and_renders_none(text in proptest::prelude::any::<String>()) {
            let html = escaped(&text);
            proptest::prop_assert!(!html.contains(['<', '>', '"', '\'']));
            proptest::prop_assert_eq!(cortex_testkit::html_shown(&html), text);
        }
    }
}
