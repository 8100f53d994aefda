//! Panics of crates that this one rents, at its seams.
//!
//! `redb` and `fjall` panic on some damaged files where an error would be right. That is damage of a file and
//! no fault of the program: it becomes an error, and the log of the node gets no message of a panic.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// Whether this thread is in a rented crate.
    static IS_RENTED: Cell<bool> = const { Cell::new(false) };
}

/// Lets panics of other code have their message.
static HOOK: Once = Once::new();

/// Payload of a caught panic.
pub type Thrown = Box<dyn Any + Send>;

/// Runs code of a rented crate. Everything that it throws is caught, and nothing is said of it.
///
/// # Errors
///
/// The payload of its panic.
pub fn catch<T>(run: impl FnOnce() -> T) -> Result<T, Thrown> {
    HOOK.call_once(|| {
        let former = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_RENTED.get() {
                former(info);
            }
        }));
    });
    let was_rented = IS_RENTED.replace(true);
    let done = panic::catch_unwind(AssertUnwindSafe(run));
    IS_RENTED.set(was_rented);
    done
}

/// The words of a panic.
#[must_use]
pub fn words_of(thrown: &Thrown) -> &str {
    let text = thrown.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| thrown.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}
