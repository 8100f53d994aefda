//! Panics of third-party crates, turned into errors.
//!
//! `redb` and `fjall` panic on some damaged files instead of returning an error. Damage of a file is
//! not a fault of the program, so such a panic becomes an error, and no panic message goes to the
//! node's log.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// True while this thread runs code of such a crate.
    static IS_THIRD_PARTY: Cell<bool> = const { Cell::new(false) };
}

/// Installs the hook that silences these panics and leaves all others as they were.
static HOOK: Once = Once::new();

/// Payload of a caught panic.
pub type PanicPayload = Box<dyn Any + Send>;

/// Runs code of a third-party crate, and catches its panics without a message.
///
/// # Errors
///
/// The payload of the panic.
pub fn catch<T>(run: impl FnOnce() -> T) -> Result<T, PanicPayload> {
    HOOK.call_once(|| {
        let former = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_THIRD_PARTY.get() {
                former(info);
            }
        }));
    });
    let was_third_party = IS_THIRD_PARTY.replace(true);
    let done = panic::catch_unwind(AssertUnwindSafe(run));
    IS_THIRD_PARTY.set(was_third_party);
    done
}

/// Message of a panic.
#[must_use]
pub fn panic_message(payload: &PanicPayload) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}
