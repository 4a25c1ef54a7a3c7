//! Open files stay with this process: nothing that was handed to us goes on to a child.

use rustix::io::{FdFlags, fcntl_setfd};
use std::os::fd::BorrowedFd;

/// The list of a process's own open files.
const OWN_DESCRIPTORS: &str = "/dev/fd";
/// Input, output and errors are set for each child anyway.
const FIRST_OTHER: i32 = 3;

/// Marks every open file to be closed in children. Ours are so from the start; those that whoever started us left
/// open are not, and could be anything.
#[expect(unsafe_code, reason = "a descriptor known by its number alone cannot be borrowed safely")]
pub(crate) fn keep_from_children() {
    let Ok(listed) = std::fs::read_dir(OWN_DESCRIPTORS) else { return };
    let numbers = listed.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for number in numbers.filter(|number| *number >= FIRST_OTHER) {
        // SAFETY: the borrow ends with this call, which changes one flag. If the number was closed in between, the
        // call fails; if it is another file by now, that one is marked too, as all of ours are.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        if let Err(error) = fcntl_setfd(descriptor, FdFlags::CLOEXEC) {
            tracing::trace!(number, %error, "a file was closed meanwhile");
        }
    }
}
