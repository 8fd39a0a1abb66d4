//! The bytes of memory that fetched objects may take.

use std::sync::{Arc, Mutex, PoisonError};

/// Bytes to be shared out.
#[derive(Debug)]
pub(crate) struct Budget {
    total: u64,
    free: Mutex<u64>,
}

/// Bytes that are given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    pub(crate) fn new(total: u64) -> Self {
        Self { total, free: Mutex::new(total) }
    }

    /// All there is.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Takes a share if that many bytes are free.
    ///
    /// It does not wait: there is another way without a share.
    pub(crate) fn take(self: &Arc<Self>, bytes: u64) -> Option<Share> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        *free = free.checked_sub(bytes)?;
        Some(Share { budget: Arc::clone(self), bytes })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        *self.budget.free.lock().unwrap_or_else(PoisonError::into_inner) += self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is() {
        let budget = Arc::new(Budget::new(10));
        let first = budget.take(7).unwrap();
        assert!(budget.take(4).is_none());
        let second = budget.take(3).unwrap();
        drop((first, second));
        assert!(budget.take(10).is_some());
    }
}
