//! Containment of panics: third-party decoders do panic, on files made to cause it.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{CodecError, Format};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Suppresses the usual report on standard error for panics in a codec.
///
/// They become a [`CodecError`] with their message.
pub fn silence_contained_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !GUARDED.get() {
            usual(panic);
        }
    }));
}

/// Runs a codec, and turns a panic in it into an error.
pub(crate) fn guard<T>(
    format: Format,
    error: impl FnOnce(String) -> CodecError,
    codec: impl FnOnce() -> Result<T, CodecError>,
) -> Result<T, CodecError> {
    let before = GUARDED.replace(true);
    // No half-changed state outlives a panic: the slot's contents are void after an error, and the
    // buffers are cleared before use.
    let result = catch_unwind(AssertUnwindSafe(codec));
    GUARDED.set(before);
    result
        .unwrap_or_else(|panic| Err(error(format!("the {format} codec crashed: {}", panic_message(&*panic)))))
}

/// Returns the message of a panic.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_a_codec_is_an_error_with_its_text() {
        let error = |text| CodecError::malformed(Format::Png, text);
        let outcome = guard::<()>(Format::Png, error, || {
            assert!(GUARDED.get(), "its report would be written");
            panic!("index {}", 7)
        });
        let text = outcome.expect_err("a panic is no success").to_string();
        assert!(text.ends_with("the PNG codec crashed: index 7"), "{text}");
        assert!(!GUARDED.get(), "other panics are to be reported");
    }
}
