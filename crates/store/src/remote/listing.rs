//! Listings of the objects below a folder, page by page.

use std::sync::Arc;
use std::vec;

use object_store::list::{PaginatedListOptions, PaginatedListResult, PaginatedListStore};
use tokio::runtime::Handle;

use super::entry;
use super::failure::failed;
use super::names::LeftOut;
use crate::error::{Error, Kind};
use crate::{Listed, Url};

/// The attempts at a page that does not come whole.
///
/// A request without an answer is repeated in addition.
const ATTEMPTS: u32 = 4;

/// The objects below a folder.
pub(crate) struct Listing {
    store: Arc<dyn PaginatedListStore>,
    handle: Handle,
    prefix: Option<String>,
    /// The rest of the last page.
    page: vec::IntoIter<Listed>,
    next: Next,
    tokens: Tokens,
}

/// The start of the next page.
enum Next {
    First,
    /// At this token of the server.
    At(String),
    /// There is no next page.
    Nowhere,
}

impl Listing {
    pub(super) fn new(store: Arc<dyn PaginatedListStore>, handle: Handle, folder: &Url) -> Self {
        Self {
            store,
            handle,
            prefix: prefix(folder),
            page: Vec::new().into_iter(),
            next: Next::First,
            tokens: Tokens::default(),
        }
    }

    /// Asks for the next page. A page that does not come whole is asked for again.
    fn turn(&mut self) -> Result<(), Error> {
        let token = match std::mem::replace(&mut self.next, Next::Nowhere) {
            Next::First => None,
            Next::At(token) => Some(token),
            Next::Nowhere => return Ok(()),
        };
        let mut failures = 0;
        let (listed, token) = loop {
            match self.handle.block_on(page(&*self.store, self.prefix.as_deref(), token.clone())) {
                Ok(page) => break page,
                Err(error) => {
                    failures += 1;
                    if !error.is_in_doubt() || failures >= ATTEMPTS {
                        return Err(error);
                    }
                }
            }
        };
        if let Some(token) = token {
            self.tokens.check(&token)?;
            self.next = Next::At(token);
        }
        self.page = listed.into_iter();
        Ok(())
    }
}

impl Iterator for Listing {
    type Item = Result<Listed, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(listed) = self.page.next() {
                return Some(Ok(listed));
            }
            if matches!(self.next, Next::Nowhere) {
                return None;
            }
            if let Err(error) = self.turn() {
                return Some(Err(error));
            }
        }
    }
}

/// Notices tokens that come again, however many lie between.
///
/// The algorithm is that of R. P. Brent, An improved Monte Carlo factorization algorithm, 1980.
#[derive(Default)]
struct Tokens {
    /// One that came.
    kept: Option<String>,
    since: u64,
    period: u64,
}

impl Tokens {
    fn check(&mut self, token: &str) -> Result<(), Error> {
        if self.kept.as_deref() == Some(token) {
            return Err(Error::new(Kind::ListedAgain));
        }
        if self.since == self.period {
            (self.kept, self.since, self.period) = (Some(token.to_owned()), 0, (self.period * 2).max(1));
        }
        self.since += 1;
        Ok(())
    }
}

/// Returns the prefix of the names of objects in a folder.
fn prefix(folder: &Url) -> Option<String> {
    (!folder.key().is_empty()).then(|| format!("{}/", folder.key()))
}

async fn page(
    store: &dyn PaginatedListStore,
    prefix: Option<&str>,
    token: Option<String>,
) -> Result<(Vec<Listed>, Option<String>), Error> {
    let options = PaginatedListOptions { page_token: token, ..PaginatedListOptions::default() };
    let (PaginatedListResult { result, page_token }, left_out) = ask(store, prefix, options).await?;
    let objects = result.objects.into_iter().map(|meta| Listed::Object(entry(meta)));
    Ok((objects.chain(left_out.take()).collect(), page_token))
}

/// Returns the names of the folders directly below a folder, as far as they are on the first page.
pub(super) async fn folders(store: &dyn PaginatedListStore, folder: &Url) -> Result<Vec<String>, Error> {
    let options = PaginatedListOptions { delimiter: Some("/".into()), ..PaginatedListOptions::default() };
    let (listed, _) = ask(store, prefix(folder).as_deref(), options).await?;
    Ok(listed.result.common_prefixes.into_iter().map(String::from).collect())
}

/// Asks for a page, without its objects of unusable names and markers of folders.
async fn ask(
    store: &dyn PaginatedListStore,
    prefix: Option<&str>,
    mut options: PaginatedListOptions,
) -> Result<(PaginatedListResult, LeftOut), Error> {
    let left_out = LeftOut::default();
    options.extensions.insert(left_out.clone());
    let listed = store.list_paginated(prefix, options).await.map_err(|error| failed(&error))?;
    Ok((listed, left_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns after how many tokens a repetition is noticed, at most `most`.
    fn noticed(tokens: impl Iterator<Item = usize>, most: usize) -> Option<usize> {
        let mut known = Tokens::default();
        tokens.take(most).position(|token| known.check(&token.to_string()).is_err())
    }

    #[test]
    fn tokens_that_come_again_are_noticed_and_others_are_not() {
        assert_eq!(noticed(0.., 10_000), None);
        assert_eq!(noticed(std::iter::repeat(7), 10), Some(1));
        for (before, period) in [(0, 2), (5, 1), (5, 3), (100, 17)] {
            let tokens = (0..before).chain((0..period).map(|at| 1_000 + at).cycle());
            let at = noticed(tokens, 10_000).unwrap();
            assert!(at >= before + period && at <= 4 * (before + period), "{before} {period} {at}");
        }
    }
}
