//! What the system says of a running process.

const MEGABYTE: f64 = 1_000_000.0;

/// A line of its status that counts memory, such as `VmRSS`, in megabytes; nothing where the system does not tell.
pub(crate) fn memory_mb(process: u32, name: &str) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let kilobytes = status.lines().find_map(|line| {
        let value = line.strip_prefix(name)?.strip_prefix(':')?.trim().strip_suffix(" kB")?;
        value.parse::<f64>().ok()
    })?;
    Some(kilobytes * 1_024.0 / MEGABYTE)
}
