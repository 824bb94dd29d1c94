//! An allocator that gives no more than 64 MiB at a time to the whole process.
//!
//! Above that it answers like a machine without memory, and the process aborts: what a hostile length would do to a user.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that may be allocated at one time.
const CAP_BYTES: usize = 64 << 20;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);

struct Capped;

// SAFETY: every call that is not refused is passed on unchanged to the system's allocator, which keeps the contract; null is a
// legal answer to any request; the counters allocate nothing.
unsafe impl GlobalAlloc for Capped {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !take(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promises about `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `pointer` came from `System` with this layout, as every allocation here does.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if !take(new_size) {
            return std::ptr::null_mut();
        }
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as for `dealloc`; the caller's promises about `new_size` are passed on.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Capped = Capped;

/// The most that was allocated at one time so far.
pub(crate) fn peak_bytes() -> usize {
    PEAK_BYTES.load(Ordering::Relaxed)
}

fn take(bytes: usize) -> bool {
    let live = LIVE_BYTES.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
    if live > CAP_BYTES {
        LIVE_BYTES.fetch_sub(bytes, Ordering::Relaxed);
        // Standard error is not buffered, so this allocates nothing. What `print!` wrote is lost with the process.
        let _ = std::io::stderr().write_all(b"an allocation above the cap of 64 MiB was refused\n");
        return false;
    }
    PEAK_BYTES.fetch_max(live, Ordering::Relaxed);
    true
}
