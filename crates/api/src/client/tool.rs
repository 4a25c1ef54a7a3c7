//! The client's side of `/api/v2/tools`.

use super::{Client, ClientError};
use crate::{ToolList, ToolTrustRequest};

impl Client {
    pub async fn tools(&self) -> Result<ToolList, ClientError> {
        self.get("/api/v2/tools", &()).await
    }

    /// Trusts a skill or an MCP server as it was shown with this digest.
    pub async fn trust_tools(&self, id: &str, digest: &str) -> Result<(), ClientError> {
        let request = ToolTrustRequest { digest: digest.to_owned() };
        self.silent_post(&format!("/api/v2/tools/{}/trust", path_segment(id)), &request).await
    }
}

/// A name as one segment of a path: whatever a person typed, it names no other route.
fn path_segment(name: &str) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_~".contains(byte);
    name.bytes()
        .map(|byte| if is_plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_segment_of_its_path() {
        assert_eq!(path_segment("weather-2_a"), "weather-2_a");
        assert_eq!(path_segment("a/../b c.ä"), "a%2F%2E%2E%2Fb%20c%2E%C3%A4");
    }
}
