//! Removal of unusable names from listings: `object_store` fails the whole page for one.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService, ReqwestConnector,
};
use quick_xml::events::Event;
use quick_xml::{Reader, escape};

use crate::url::fault;
use crate::{Listed, Unusable};

/// The elements of a page that stand for an object or a folder: of S3 and Google, and of Azure.
const ENTRIES: [&[u8]; 4] = [b"Contents", b"CommonPrefixes", b"Blob", b"BlobPrefix"];

/// Their elements with the name.
const NAMES: [&[u8]; 3] = [b"Key", b"Prefix", b"Name"];

/// Their elements with the length.
const LENGTHS: [&[u8]; 2] = [b"Size", b"Content-Length"];

/// The objects that were taken out of the answer to the request that carries this.
#[derive(Clone, Debug, Default)]
pub(super) struct LeftOut(Arc<Mutex<Vec<Listed>>>);

impl LeftOut {
    pub(super) fn take(&self) -> Vec<Listed> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, left_out: Vec<Listed>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = left_out;
    }
}

/// Makes clients that take such objects out of the answers to requests with a [`LeftOut`].
#[derive(Debug)]
pub(super) struct UsableNames;

impl HttpConnector for UsableNames {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Filter(ReqwestConnector::default().connect(options)?)))
    }
}

#[derive(Debug)]
struct Filter(HttpClient);

#[async_trait]
impl HttpService for Filter {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let left_out = request.extensions().get::<LeftOut>().cloned();
        let response = self.0.execute(request).await?;
        match left_out {
            Some(left_out) if response.status().is_success() => filtered(response, &left_out).await,
            _ => Ok(response),
        }
    }
}

async fn filtered(response: HttpResponse, left_out: &LeftOut) -> Result<HttpResponse, HttpError> {
    let (parts, body) = response.into_parts();
    let body = body.bytes().await?;
    let page = std::str::from_utf8(&body).map_err(|error| HttpError::new(HttpErrorKind::Decode, error))?;
    let (kept, taken_out) = cut(page).map_err(|error| HttpError::new(HttpErrorKind::Decode, error))?;
    left_out.put(taken_out);
    Ok(HttpResponse::from_parts(parts, HttpResponseBody::from(kept)))
}

/// Returns a page of a listing without unusable names and markers of folders, and a list of these.
///
/// `object_store` names a marker like an object without the slash.
fn cut(page: &str) -> Result<(String, Vec<Listed>), quick_xml::Error> {
    let page = page.trim_start_matches('\u{feff}');
    let mut reader = Reader::from_str(page);
    let (mut kept, mut taken_out, mut from) = (String::with_capacity(page.len()), Vec::new(), 0);
    loop {
        let start = reader.buffer_position() as usize;
        match reader.read_event()? {
            Event::Start(element) if ENTRIES.contains(&element.local_name().as_ref()) => {
                let inner = reader.read_text(element.name())?;
                if let Some(one) = taken_out_of(&inner.decode()?) {
                    kept.push_str(&page[from..start]);
                    from = reader.buffer_position() as usize;
                    taken_out.push(one);
                }
            }
            Event::Eof => break,
            _ => {}
        }
    }
    kept.push_str(&page[from..]);
    Ok((kept, taken_out))
}

/// Returns what an element of a page stands for, if that has an unusable name or is a marker.
fn taken_out_of(entry: &str) -> Option<Listed> {
    let name = text_in(entry, &NAMES)?;
    // A folder has no length.
    let size = text_in(entry, &LENGTHS).and_then(|size| size.parse().ok());
    match fault(name.strip_suffix('/').unwrap_or(&name)) {
        Some(why) => Some(Listed::Unusable(Unusable { name, size: size.unwrap_or(0), why })),
        None if size == Some(0) && name.ends_with('/') => Some(Listed::Marker(name)),
        None => None,
    }
}

/// Returns the text of the first element of one of these names.
fn text_in(xml: &str, names: &[&[u8]]) -> Option<String> {
    let mut reader = Reader::from_str(xml);
    loop {
        match reader.read_event().ok()? {
            Event::Start(element) if names.contains(&element.local_name().as_ref()) => {
                let text = reader.read_text(element.name()).ok()?;
                return Some(escape::unescape(&text.decode().ok()?).ok()?.into_owned());
            }
            Event::Eof => return None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut_of(page: &str) -> (String, Vec<(String, u64)>) {
        let (kept, taken_out) = cut(page).unwrap();
        let named = |one| match one {
            Listed::Unusable(one) => (one.name, one.size),
            other => panic!("{other:?}"),
        };
        (kept, taken_out.into_iter().map(named).collect())
    }

    #[test]
    fn an_empty_object_with_a_slash_at_its_end_is_a_marker() {
        let page =
            |key: &str, size: u64| format!("<a><Contents><Key>{key}</Key><Size>{size}</Size></Contents></a>");
        assert_eq!(
            cut(&page("in/scan.tif/", 0)).unwrap(),
            ("<a></a>".to_owned(), vec![Listed::Marker("in/scan.tif/".to_owned())])
        );
        let folder = "<a><CommonPrefixes><Prefix>in/scan.tif/</Prefix></CommonPrefixes></a>".to_owned();
        for kept in [page("in/scan.tif", 0), page("in/scan.tif/", 9), folder] {
            assert_eq!(cut(&kept).unwrap(), (kept, vec![]));
        }
    }

    #[test]
    fn what_has_an_impossible_name_is_taken_out_and_the_rest_stays_byte_for_byte() {
        let object = |key: &str, size| {
            format!("<Contents><Key>{key}</Key><Size>{size}</Size><ETag>&quot;1&quot;</ETag></Contents>")
        };
        let bad = ["a//b.png", "/c.png", "in/../d.png", "in/./e", "Icon&#13;", "new\nline.pgm", "&lt;&#x1;"];
        let good = ["a.png", "in/", "é &amp; ü.png", "a..b/.c"];
        let all: String = good.iter().zip(bad).map(|(good, bad)| object(good, 1) + &object(bad, 7)).collect();
        let others: String = bad[4..].iter().map(|bad| object(bad, 7)).collect();
        let head =
            "\u{feff}<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"http://s3/\"><Prefix>in//</Prefix>";
        let tail = "<NextContinuationToken>t</NextContinuationToken></ListBucketResult>";
        let folders = "<CommonPrefixes><Prefix>x//</Prefix></CommonPrefixes><CommonPrefixes><Prefix>y/</Prefix></CommonPrefixes>";
        let (kept, unusable) = cut_of(&format!("{head}{all}{others}{folders}{tail}"));
        let left: String = good.iter().map(|good| object(good, 1)).collect();
        let head = head.trim_start_matches('\u{feff}');
        assert_eq!(kept, format!("{head}{left}<CommonPrefixes><Prefix>y/</Prefix></CommonPrefixes>{tail}"));
        let names = ["a//b.png", "/c.png", "in/../d.png", "in/./e", "Icon\r", "new\nline.pgm", "<\u{1}"];
        let expected: Vec<_> =
            names.iter().map(|name| ((*name).to_owned(), 7)).chain([("x//".to_owned(), 0)]).collect();
        assert_eq!(unusable, expected);
    }

    #[test]
    fn azure_s_pages_are_read_too() {
        let blob =
            "<Blob><Name>a/../b.png</Name><Properties><Content-Length>9</Content-Length></Properties></Blob>";
        let (kept, unusable) =
            cut_of(&format!("<R><Blobs>{blob}<Blob><Name>c</Name></Blob></Blobs><NextMarker/></R>"));
        assert_eq!(kept, "<R><Blobs><Blob><Name>c</Name></Blob></Blobs><NextMarker/></R>");
        assert_eq!(unusable, [("a/../b.png".to_owned(), 9)]);
    }

    #[test]
    fn what_is_no_page_is_an_error_or_stays() {
        assert!(cut("<a><Contents></a>").is_err());
        assert_eq!(cut_of("no XML").0, "no XML");
    }
    #[test]
    fn whatever_comes_is_cut_or_refused_and_nothing_is_made_up() {
        let page = "\u{feff}<a><Contents><Key>in//é&amp;</Key><Size>7</Size></Contents><Contents><Key>b</Key></Contents></a>";
        let mut state = 7_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let (mut read, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let mut bytes = page.as_bytes().to_vec();
            for _ in 0..=random(4) {
                let at = random(bytes.len());
                match random(3) {
                    0 => bytes[at] = b"<>/&;a\"=!-?[]\xc3"[random(14)],
                    1 if bytes.len() > 1 => drop(bytes.remove(at)),
                    _ => bytes.truncate(at.max(1)),
                }
            }
            let text = String::from_utf8_lossy(&bytes);
            match cut(&text) {
                Ok((kept, unusable)) => {
                    assert!(kept.len() <= text.len() && (unusable.is_empty() || kept.len() < text.len()));
                    read += 1;
                }
                Err(_) => refused += 1,
            }
        }
        assert!(read > 100 && refused > 100, "{read} read, {refused} refused");
    }
}
