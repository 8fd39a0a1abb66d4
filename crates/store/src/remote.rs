//! Requests to a bucket: the only code that knows `object_store` and the runtime.
//!
//! Each call waits for its answer; few threads carry all requests.

mod failure;
mod listing;
mod names;

use std::borrow::Cow;
use std::env;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::list::PaginatedListStore;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, BackoffConfig, ClientOptions, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, RetryConfig, UpdateVersion,
};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;

use crate::error::{Error, Kind};
use crate::{AT_ONCE, Content, Entry, Expected, Found, Labels, RECORD, SETTINGS, Url, Version};
use failure::{failed, innermost};
pub(crate) use listing::Listing;
use names::UsableNames;

/// Threads that carry requests. They wait for the network, and compute little.
const THREADS: usize = 2;

/// Characters that are escaped in the settings on an object: line breaks and blanks.
///
/// A header has one line, and signatures ignore the number of blanks.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'%');

/// The most bytes of settings on an object: services take 2 KB of metadata.
const LONGEST_SETTINGS: usize = 1536;

/// The size of the parts in which longer objects are written, which bounds their memory on the way.
const PART: u64 = 16 << 20;

/// The most parts that an object may have.
const MOST_PARTS: u64 = 9_000;

/// Parts of one object that are under way at once.
const PARTS_AT_ONCE: usize = 4;

/// Bytes of memory for each permit of an upload.
const UNIT: u64 = 64 << 10;

/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(5);

/// How long an answer may pause. A body may take as long as it needs.
const SILENCE: Duration = Duration::from_secs(30);

/// The repetitions of a request, and their end: about half a minute if the server is gone.
fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(8),
            base: 2.0,
        },
        max_retries: 8,
        retry_timeout: Duration::from_secs(120),
    }
}

fn options() -> ClientOptions {
    ClientOptions::new().with_timeout_disabled().with_connect_timeout(CONNECT).with_read_timeout(SILENCE)
}

/// Opens a bucket with this builder, and settings from the environment with this prefix.
macro_rules! open {
    ($builder:ty, $prefix:literal, $url:expr) => {{
        let builder = <$builder>::new()
            .with_url($url.bucket())
            .with_client_options(options())
            .with_retry(retries())
            .with_http_connector(UsableNames);
        let variables = env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let builder = variables.filter(|(name, _)| name.starts_with($prefix)).fold(
            builder,
            |builder, (name, value)| match name.to_ascii_lowercase().parse() {
                Ok(key) => builder.with_config(key, value),
                Err(_) => builder,
            },
        );
        let built = builder.build().map_err(|error| Error::new(Kind::Settings(innermost(&error))))?;
        (Arc::new(built.clone()) as Arc<dyn ObjectStore>, Arc::new(built) as Arc<dyn PaginatedListStore>)
    }};
}

/// The threads that carry the requests of all buckets.
pub(crate) struct Carrier {
    runtime: Runtime,
    /// Memory for uploads.
    uploads: Arc<Semaphore>,
    units: u32,
}

impl Carrier {
    /// Starts the threads.
    ///
    /// Uploads take at most `memory` bytes on their way, but no less than one object needs.
    pub(crate) fn start(memory: u64) -> Result<Self, Error> {
        let failed =
            |why: std::io::Error| Error::new(Kind::Other(format!("no thread can be started: {why}")));
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("store")
            .enable_all()
            .build()
            .map_err(failed)?;
        // It fails if there is one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let units = u32::try_from((memory / UNIT).max(PART / UNIT))
            .unwrap_or(u32::MAX)
            .min(Semaphore::MAX_PERMITS as u32);
        Ok(Self { runtime, uploads: Arc::new(Semaphore::new(units as usize)), units })
    }
}

/// A bucket.
pub(crate) struct Bucket {
    store: Arc<dyn ObjectStore>,
    /// The same, for its listings.
    lists: Arc<dyn PaginatedListStore>,
    handle: Handle,
    uploads: Arc<Semaphore>,
    units: u32,
}

impl Bucket {
    pub(crate) fn open(carrier: &Carrier, url: &Url) -> Result<Self, Error> {
        let url = url.with_key("");
        let (store, lists) = match url.bucket().as_bytes()[0] {
            b's' => open!(AmazonS3Builder, "AWS_", &url),
            b'g' => open!(GoogleCloudStorageBuilder, "GOOGLE_", &url),
            _ => open!(MicrosoftAzureBuilder, "AZURE_", &url),
        };
        let (handle, uploads) = (carrier.runtime.handle().clone(), Arc::clone(&carrier.uploads));
        Ok(Self { store, lists, handle, uploads, units: carrier.units })
    }

    /// Lists the objects below a folder, page by page.
    pub(crate) fn list(&self, folder: &Url) -> Listing {
        Listing::new(Arc::clone(&self.lists), self.handle.clone(), folder)
    }

    /// Returns the names of the folders directly below a folder, from the first page.
    pub(crate) fn folders(&self, folder: &Url) -> Result<Vec<String>, Error> {
        self.handle.block_on(listing::folders(&*self.lists, folder))
    }

    /// Asks for the records of these objects, many at once; the answers come in their order.
    pub(crate) fn heads(&self, urls: Vec<Url>) -> Heads {
        let store = Arc::clone(&self.store);
        let asked = urls.into_iter().map(move |url| head(Arc::clone(&store), url));
        Heads { stream: stream::iter(asked).buffered(AT_ONCE).boxed(), handle: self.handle.clone() }
    }

    pub(crate) fn head(&self, url: &Url) -> Result<Option<Found>, Error> {
        self.handle.block_on(head(Arc::clone(&self.store), url.clone()))
    }

    pub(crate) fn get(&self, url: &Url, most: u64) -> Result<Option<Vec<u8>>, Error> {
        self.handle.block_on(get(&*self.store, url, most))
    }

    pub(crate) fn delete(&self, url: &Url) -> Result<(), Error> {
        let path = path_of(url)?;
        let deleted = self.handle.block_on(self.store.delete(&path)).map_err(|error| failed(&error));
        deleted.or_else(|why| if why.is_not_found() { Ok(()) } else { Err(why) })
    }

    /// Starts to fetch an object in this state into a file.
    pub(crate) fn fetch(&self, url: Url, wanted: Entry, file: File) -> Fetching {
        let store = Arc::clone(&self.store);
        let task = self.handle.spawn(async move { fetch(&*store, &url, &wanted, file).await });
        Fetching { task, handle: self.handle.clone() }
    }

    /// Writes an object, whole or not at all.
    pub(crate) fn put(
        &self,
        url: &Url,
        content: Content<'_>,
        length: u64,
        labels: Labels<'_>,
        expected: &Expected,
    ) -> Result<(), Error> {
        self.handle.block_on(async {
            let path = path_of(url)?;
            if length <= PART {
                self.put_whole(&path, content, length, labels, expected).await
            } else {
                self.put_parts(url, &path, content, length, labels, expected).await
            }
        })
    }

    async fn put_whole(
        &self,
        path: &Path,
        content: Content<'_>,
        length: u64,
        labels: Labels<'_>,
        expected: &Expected,
    ) -> Result<(), Error> {
        let _permit = self.memory_for(length).await?;
        let mode = match expected {
            Expected::Nothing => PutMode::Create,
            Expected::Anything => PutMode::Overwrite,
            Expected::State(Version { e_tag, version, .. }) => {
                PutMode::Update(UpdateVersion { e_tag: e_tag.clone(), version: version.clone() })
            }
        };
        let options = PutOptions { mode, attributes: attributes(labels), ..PutOptions::default() };
        let put = self.store.put_opts(path, part(content, 0, length)?, options).await;
        put.map(drop).map_err(|error| failed(&error))
    }

    /// Writes an object in parts.
    ///
    /// No store can make the appearance of such an object depend on a condition through
    /// `object_store`: the condition is checked just before.
    async fn put_parts(
        &self,
        url: &Url,
        path: &Path,
        content: Content<'_>,
        length: u64,
        labels: Labels<'_>,
        expected: &Expected,
    ) -> Result<(), Error> {
        self.check(url, expected).await?;
        let options =
            PutMultipartOptions { attributes: attributes(labels), ..PutMultipartOptions::default() };
        let mut upload =
            self.store.put_multipart_opts(path, options).await.map_err(|error| failed(&error))?;
        let size = PART.max(length.div_ceil(MOST_PARTS));
        let mut starts = (0..length).step_by(usize::try_from(size).unwrap_or(usize::MAX));
        let sent: Result<(), Error> = async {
            let mut under_way = stream::FuturesUnordered::new();
            let mut next = starts.next();
            while next.is_some() || !under_way.is_empty() {
                // Waiting for memory with parts under way would keep them from being sent.
                let permit = match next {
                    Some(start) if under_way.is_empty() => {
                        Some(self.memory_for(size.min(length - start)).await?)
                    }
                    Some(start) if under_way.len() < PARTS_AT_ONCE => {
                        self.uploads.try_acquire_many(self.units_of(size.min(length - start))).ok()
                    }
                    _ => None,
                };
                if let (Some(start), Some(permit)) = (next, permit) {
                    let sending = upload.put_part(part(content, start, size.min(length - start))?);
                    under_way.push(async move {
                        let sent = sending.await;
                        drop(permit);
                        sent
                    });
                    next = starts.next();
                } else if let Some(sent) = under_way.next().await {
                    sent.map_err(|error| failed(&error))?;
                }
            }
            self.check(url, expected).await?;
            upload.complete().await.map(drop).map_err(|error| failed(&error))
        }
        .await;
        if sent.is_err() {
            // Parts that cannot be removed at this point are removed by the bucket's rule for
            // incomplete uploads, if it has one.
            let _ = upload.abort().await;
        }
        sent
    }

    /// Checks that the expected state is at the place of an object.
    async fn check(&self, url: &Url, expected: &Expected) -> Result<(), Error> {
        if *expected == Expected::Anything {
            return Ok(());
        }
        let found = head(Arc::clone(&self.store), url.clone()).await?;
        let is_expected = match (expected, &found) {
            (Expected::Nothing, None) => true,
            (Expected::State(version), Some(found)) => *version == found.entry.version,
            _ => false,
        };
        if is_expected { Ok(()) } else { Err(Error::new(Kind::Precondition)) }
    }

    /// Waits for memory to send so many bytes from.
    async fn memory_for(&self, length: u64) -> Result<SemaphorePermit<'_>, Error> {
        self.uploads
            .acquire_many(self.units_of(length))
            .await
            .map_err(|error| Error::new(Kind::Other(error.to_string())))
    }

    fn units_of(&self, length: u64) -> u32 {
        u32::try_from(length.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.units)
    }
}

/// Returns a part of the content to be written.
fn part(content: Content<'_>, start: u64, length: u64) -> Result<PutPayload, Error> {
    let bytes = match content {
        Content::File(file) => read(file, start, length),
        Content::Bytes(bytes) => Ok(bytes[start as usize..][..length as usize].to_vec()),
    };
    let unread = |why| Error::new(Kind::Other(format!("its temporary file cannot be read: {why}")));
    bytes.map(PutPayload::from).map_err(unread)
}

fn read(file: &File, start: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

/// The records of many objects.
pub(crate) struct Heads {
    stream: BoxStream<'static, Result<Option<Found>, Error>>,
    handle: Handle,
}

impl Iterator for Heads {
    type Item = Result<Option<Found>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.handle.block_on(self.stream.next())
    }
}

/// A fetch under way. It ends when this is dropped.
pub(crate) struct Fetching {
    task: JoinHandle<Result<File, Error>>,
    handle: Handle,
}

impl Fetching {
    /// Waits for the file.
    pub(crate) fn wait(mut self) -> Result<File, Error> {
        let ended = self.handle.block_on(&mut self.task);
        ended.unwrap_or_else(|why| {
            Err(Error::new(Kind::Other(format!("histeqd has a bug here, please report it: {why}"))))
        })
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn path_of(url: &Url) -> Result<Path, Error> {
    Path::parse(url.key()).map_err(|error| Error::new(Kind::Other(error.to_string())))
}

fn attributes(labels: Labels<'_>) -> Attributes {
    let record = labels.record.map(|record| (Attribute::Metadata(RECORD.into()), record.to_owned()));
    let settings = labels.settings.map(|text| utf8_percent_encode(text, ESCAPED).to_string());
    let settings = settings.filter(|text| text.len() <= LONGEST_SETTINGS);
    let settings = settings.map(|text| (Attribute::Metadata(SETTINGS.into()), text));
    let kind = labels.content_type.map(|kind| (Attribute::ContentType, kind.to_owned()));
    record.into_iter().chain(settings).chain(kind).collect()
}

fn entry(meta: ObjectMeta) -> Entry {
    let ObjectMeta { location, last_modified, size, e_tag, version } = meta;
    // Out of range only beyond the year 2262.
    let modified_ns = last_modified.timestamp_nanos_opt().unwrap_or(i64::MAX);
    Entry { key: location.into(), size, version: Version { e_tag, version, modified_ns } }
}

async fn head(store: Arc<dyn ObjectStore>, url: Url) -> Result<Option<Found>, Error> {
    let options = GetOptions { head: true, ..GetOptions::default() };
    match store.get_opts(&path_of(&url)?, options).await {
        Ok(got) => {
            let label = |name: &'static str| got.attributes.get(&Attribute::Metadata(name.into()));
            let record = label(RECORD).map(|value| value.as_ref().to_owned());
            let settings = label(SETTINGS)
                .and_then(|value| percent_decode_str(value.as_ref()).decode_utf8().ok())
                .map(Cow::into_owned);
            Ok(Some(Found { entry: entry(got.meta), record, settings }))
        }
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(failed(&error)),
    }
}

async fn get(store: &dyn ObjectStore, url: &Url, most: u64) -> Result<Option<Vec<u8>>, Error> {
    let got =
        match store.get_opts(&path_of(url)?, GetOptions::default()).await.map_err(|error| failed(&error)) {
            Ok(got) => got,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
    let size = got.meta.size;
    if size > most {
        return Err(Error::new(Kind::Other(format!("it has {size} bytes, more than the limit of {most}"))));
    }
    let bytes = got.bytes().await.map_err(|error| failed(&error))?;
    if (bytes.len() as u64) < size {
        return Err(Error::new(Kind::Refused(format!("only {} of {size} bytes came", bytes.len()))));
    }
    Ok(Some(bytes.into()))
}

async fn fetch(store: &dyn ObjectStore, url: &Url, wanted: &Entry, file: File) -> Result<File, Error> {
    let options = GetOptions { if_match: wanted.version.e_tag.clone(), ..GetOptions::default() };
    let got = store.get_opts(&path_of(url)?, options).await.map_err(|error| failed(&error))?;
    let (mut stream, mut at) = (got.into_stream(), 0);
    while let Some(bytes) = stream.next().await {
        let bytes = bytes.map_err(|error| failed(&error))?;
        if at + bytes.len() as u64 > wanted.size {
            return Err(Error::new(Kind::Precondition));
        }
        // Into memory, or into a file that is about to be removed.
        file.write_all_at(&bytes, at).map_err(|why| {
            Error::new(Kind::Other(format!("cannot be stored: {why}; set TMPDIR to another folder")))
        })?;
        at += bytes.len() as u64;
    }
    if at < wanted.size {
        return Err(Error::new(Kind::Refused(format!("only {at} of {} bytes came", wanted.size))));
    }
    Ok(file)
}
