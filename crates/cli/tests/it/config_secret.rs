//! Complaints about a configuration say what is wrong and never what the secret is.

use crate::cortex::Cortex;

#[test]
fn no_complaint_repeats_a_secret() {
    let secret = "hunter2hunter2";
    let files = [
        format!("{{\"ingestApiKye\": \"{secret}\"}}"),
        format!("{{\"ingestApiKey\": [\"{secret}\"]}}"),
        format!(
            "{{\"providers\": {{\"profiles\": [{{\"name\": \"a\", \"kind\": \"openai\", \"apiKye\": \"{secret}\"}}]}}}}"
        ),
        format!(
            "{{\"providers\": {{\"profiles\": [{{\"name\": \"a\", \"kind\": \"{secret}\", \"apiKey\": \"{secret}\"}}]}}}}"
        ),
        format!("{{\"hooks\": {{\"ci\": {{\"key\": \"{secret}\", \"text\": 3}}}}}}"),
        format!("{{\"hooks\": {{\"ci\": {{\"secret\": [\"{secret}\"]}}}}}}"),
        format!(
            "{{\"webhooks\": {{\"a\": {{\"source\": \"s\", \"url\": \"{secret}\", \"secret\": \"{secret}\"}}}}}}"
        ),
        format!(
            "{{\"connectors\": {{\"telegram\": {{\"enabled\": \"{secret}\", \"token\": \"{secret}\"}}}}}}"
        ),
        format!("{{\"mcpServers\": {{\"a\": {{\"url\": \"http://h/\", \"headers\": \"{secret}\"}}}}}}"),
        format!("{{\"embedding\": {{\"baseUrl\": \"http://me:{secret}@h\", \"model\": 3}}}}"),
        format!("{{\"port\": \"sk-{secret}\"}}"),
    ];
    for file in files {
        let ran = Cortex::new().with_file(&file).run(&["config", "--server", "--list"]);
        assert_eq!(ran.code, Some(78), "{file}: {}", ran.stderr);
        assert!(!ran.stderr.contains(secret), "{file}: {}", ran.stderr);
    }
    let cortex = Cortex::new()
        .with("CORTEX_PROVIDERS", &format!("{{\"profiles\": [{{\"apiKey\": \"{secret}\", \"kind\": 1}}]}}"));
    let ran = cortex.run(&["config", "--server", "--list"]);
    assert!(ran.code == Some(78) && !ran.stderr.contains(secret), "{}", ran.stderr);
}
