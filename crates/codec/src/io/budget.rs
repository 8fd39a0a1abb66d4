//! Memory that a picture may hold before it has a slot: for its file, and the metadata in it.

use crate::CodecError;

/// The limit on how much of its file a picture may hold.
///
/// Asked before that part of the file is read, but only for more than small change.
pub trait Budget {
    /// Waits until the picture may hold `bytes` bytes. Asked at most once for each picture.
    ///
    /// # Errors
    /// The most bytes that any picture may hold, if these are fewer.
    fn hold(&mut self, bytes: u64) -> Result<(), u64>;

    /// Returns the bytes of pixels up to which a picture is opened as a whole.
    ///
    /// A larger one is opened in bands of rows, like pages, where its format allows that.
    fn most_at_once(&self) -> u64 {
        u64::MAX
    }

    /// Returns the bytes that all pictures may hold together.
    ///
    /// For what a file takes from its first page to its last, which pages cannot hold.
    fn memory(&self) -> u64 {
        u64::MAX
    }

    /// Returns a buffer for the file that another one has used, if there is any.
    ///
    /// It counts towards the bytes that may be held.
    fn buffer(&mut self) -> Vec<u8> {
        Vec::new()
    }
}

/// No bound.
pub struct Unbounded;

impl Budget for Unbounded {
    fn hold(&mut self, _bytes: u64) -> Result<(), u64> {
        Ok(())
    }
}

/// Bytes of a file or its metadata that a decoding thread may hold without asking.
pub(crate) const SMALL_CHANGE: u64 = 1 << 20;

/// Refuses `what` if it takes more than a share of all memory, one in `share`.
pub(crate) fn check(budget: &dyn Budget, bytes: u64, share: u64, what: &str) -> Result<(), CodecError> {
    let (memory, needs) = (budget.memory(), bytes.saturating_mul(share));
    if bytes <= SMALL_CHANGE || needs <= memory {
        return Ok(());
    }
    let what = format!("{what} of {bytes} bytes");
    Err(CodecError::LargerThanMemory { what, allowed: memory / share, needs: None, enough: Some(needs) })
}

/// Asks for `bytes` bytes of `what`.
pub(crate) fn ask(budget: &mut dyn Budget, bytes: u64, what: &str) -> Result<(), CodecError> {
    if bytes <= SMALL_CHANGE {
        return Ok(());
    }
    budget.hold(bytes).map_err(|allowed| {
        let what = format!("{what} of {bytes} bytes");
        CodecError::LargerThanMemory { what, allowed, needs: None, enough: None }
    })
}
