//! An array of an image: one of its resolutions.

use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;

use zarrs::array::codec::api::Codec;
use zarrs::array::{
    Array, ArrayBytes, ArrayCreateError, ArrayError, ArrayMetadata, ArrayMetadataV2, CodecOptions,
    FillValueMetadata,
};
use zarrs::plugin::{ExtensionName, PluginCreateError};
use zarrs::storage::{StorageError, StoreKey};

use super::folder::{Folder, Store, below};
use super::region::{Region, copy, numbers_of_key};
use super::written::Written;
use super::{bounded, malformed, unsupported};
use crate::CodecError;
use crate::io::image_store::ImageStore;
use crate::samples::mapped::Kind;

/// Bytes that a stored chunk may have beyond twice its samples: a shard's index, a header.
const FIXED_BYTES: u64 = 1 << 20;

/// An array that is open for reading.
#[derive(Debug)]
pub(super) struct Level {
    array: Array<Store>,
    /// Its path below the group.
    pub(super) path: String,
    pub(super) kind: Kind,
    pub(super) shape: Vec<u64>,
    /// The shape of the stored unit: a chunk, or a shard of several.
    pub(super) chunk: Vec<u64>,
    /// Whether a missing chunk was never written: there is no fill value.
    has_no_fill: bool,
}

impl Level {
    /// Opens the array at a path, with documents of at most `longest` bytes.
    ///
    /// # Errors
    /// When it cannot be read, or has another number of axes.
    pub(super) fn open(
        store: &Arc<dyn ImageStore>,
        path: &str,
        axes: usize,
        longest: u64,
    ) -> Result<Self, CodecError> {
        bounded::register();
        let node = format!("/{path}");
        let metadata = Arc::new(Store::new(store, longest));
        let about = Array::open(Arc::clone(&metadata), &node);
        let about = about.map_err(|why| refusal(&**store, path, longest, why))?;
        let name = about.data_type().name_v3().unwrap_or_default();
        let kind = kind(&name).ok_or_else(|| unsupported(format!("an OME-Zarr image of {name} samples")))?;
        let shape = about.shape().to_vec();
        if shape.len() != axes {
            let found = shape.len();
            return Err(malformed(format!("array {path} has {found} axes, and the image {axes}")));
        }
        if shape.contains(&0) || samples(&shape).is_none() {
            return Err(malformed(format!("array {path} is of {shape:?} samples")));
        }
        let chunk = chunk_of(&about).ok_or_else(|| {
            unsupported(format!("an OME-Zarr image with chunks of different shapes (array {path})"))
        })?;
        let bytes = samples(&chunk).and_then(|samples| samples.checked_mul(kind.bytes() as u64));
        let bytes =
            bytes.ok_or_else(|| malformed(format!("array {path} has chunks of {chunk:?} samples")))?;
        let store = Store::new(store, bytes.saturating_mul(2).saturating_add(FIXED_BYTES));
        let has_no_fill =
            matches!(about.metadata(), ArrayMetadata::V2(v2) if v2.fill_value == FillValueMetadata::Null);
        let about = bounded::with_all(about).map_err(|why| malformed(format!("array {path}: {why}")))?;
        let array = about.with_storage(Arc::new(store));
        Ok(Self { array, path: path.to_owned(), kind, shape, chunk, has_no_fill })
    }

    /// Returns the bytes of the samples of a chunk.
    pub(super) fn chunk_bytes(&self) -> u64 {
        self.chunk.iter().product::<u64>() * self.kind.bytes() as u64
    }

    /// Returns the bytes of heap for reading or writing a chunk: its samples and their stored form.
    pub(super) fn heap_bytes(&self) -> u64 {
        self.chunk_bytes().saturating_mul(4).saturating_add(FIXED_BYTES)
    }

    /// Returns the array that is written in the place of this one in another store.
    ///
    /// If that is a folder, the array has the chunks that are recorded there already.
    ///
    /// # Errors
    /// When the record can be neither read nor written.
    pub(super) fn in_store(
        &self,
        store: &Arc<dyn ImageStore>,
        folder: Option<&Folder>,
    ) -> Result<Output, CodecError> {
        let store = Store::new(store, self.chunk_bytes().saturating_mul(2).saturating_add(FIXED_BYTES));
        let counts = self.shape.iter().zip(&self.chunk).map(|(all, chunk)| all.div_ceil(*chunk)).collect();
        let chunks = folder.map(|folder| Written::open(folder, &self.path, counts)).transpose()?;
        Ok(Output { array: self.array.with_storage(Arc::new(store)), chunks })
    }

    /// Reads the samples of a box, chunk by chunk, in native byte order.
    ///
    /// Returns whether any of them were never written.
    ///
    /// # Errors
    /// When a chunk is damaged; it is named.
    pub(super) fn read(&self, region: &Region, into: &mut [u8]) -> Result<bool, CodecError> {
        let is_any_missing = read(&self.array, self, region, into)?;
        Ok(is_any_missing && self.has_no_fill)
    }

    /// Returns whether the chunk with the numbers in a key has this key.
    ///
    /// `None` if these are no numbers of a chunk.
    pub(super) fn is_key_of_chunk(&self, key: &str) -> Option<bool> {
        let numbers = numbers_of_key(key.strip_prefix(&*self.path)?.strip_prefix('/')?)?;
        (numbers.len() == self.shape.len()).then(|| self.array.chunk_key(&numbers).as_str() == key)
    }

    /// Returns all samples of a chunk as a box, including those beyond the end of the array.
    fn whole_chunk(&self, numbers: &[u64]) -> Region {
        let start = numbers.iter().zip(&self.chunk).map(|(number, length)| number * length).collect();
        Region { start, shape: self.chunk.clone() }
    }
}

/// An array that is written.
#[derive(Debug)]
pub(super) struct Output {
    array: Array<Store>,
    /// The chunks that have been written, where there is a record of them.
    chunks: Option<Written>,
}

impl Output {
    /// Returns the number of bytes that have been written.
    pub(super) fn written(&self) -> u64 {
        self.array.storage().written()
    }

    /// Returns whether all chunks of a box have been written.
    pub(super) fn has(&self, level: &Level, region: &Region) -> bool {
        region.cells(&level.chunk).all(|numbers| self.has_chunk(&numbers))
    }

    fn has_chunk(&self, numbers: &[u64]) -> bool {
        self.chunks.as_ref().is_some_and(|chunks| chunks.has(numbers))
    }

    /// Reads samples that have been written, as [`Level::read`] does.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) fn read(&self, level: &Level, region: &Region, into: &mut [u8]) -> Result<(), CodecError> {
        read(&self.array, level, region, into).map(|_| ())
    }

    /// Writes a box of whole chunks, as far as these lie in the array.
    ///
    /// Chunks that have been written stay as they are: a process that is killed while it writes one
    /// again would leave half of a whole chunk.
    ///
    /// # Errors
    /// When they cannot be written.
    pub(super) fn write(&self, level: &Level, region: &Region, samples: &[u8]) -> Result<(), CodecError> {
        let bytes = level.kind.bytes();
        for numbers in region.cells(&level.chunk).filter(|numbers| !self.has_chunk(numbers)) {
            let whole = level.whole_chunk(&numbers);
            // The samples beyond the end of the array may have any value.
            let mut chunk = self.array.fill_value().as_ne_bytes().repeat(whole.samples() as usize);
            copy(samples, region, &mut chunk, &whole, bytes);
            self.array
                .store_chunk_opt(&numbers, ArrayBytes::new_flen(chunk), &options())
                .map_err(|why| fault(&self.array.chunk_key(&numbers), why))?;
            self.chunks.as_ref().map_or(Ok(()), |chunks| chunks.note(&numbers))?;
        }
        Ok(())
    }
}

/// Reads the samples of a box of an array like `level`. Returns whether any chunk is missing.
fn read(array: &Array<Store>, level: &Level, region: &Region, into: &mut [u8]) -> Result<bool, CodecError> {
    let (bytes, mut is_any_missing) = (level.kind.bytes(), false);
    for numbers in region.cells(&level.chunk) {
        let whole = level.whole_chunk(&numbers);
        let chunk = array
            .retrieve_chunk_if_exists_opt::<ArrayBytes<'_>>(&numbers, &options())
            .map_err(|why| fault(&array.chunk_key(&numbers), why))?;
        is_any_missing |= chunk.is_none();
        let fill = || ArrayBytes::new_flen(array.fill_value().as_ne_bytes().repeat(whole.samples() as usize));
        let chunk = chunk.unwrap_or_else(fill).into_fixed().map_err(|why| malformed(why.to_string()))?;
        if chunk.len() as u64 != level.chunk_bytes() {
            let key = array.chunk_key(&numbers);
            return Err(malformed(format!("chunk {key} has {} bytes of samples", chunk.len())));
        }
        copy(&chunk, &whole, into, region, bytes);
    }
    Ok(is_any_missing)
}

/// The cores are for pages; a chunk is for one of them alone.
fn options() -> CodecOptions {
    CodecOptions::default().with_concurrent_target(1)
}

/// Returns the shape of chunks if all have the same.
fn chunk_of(array: &Array<Store>) -> Option<Vec<u64>> {
    let lengths = |chunk: &[NonZeroU64]| chunk.iter().map(|length| length.get()).collect::<Vec<_>>();
    let first = array.chunk_shape(&vec![0; array.dimensionality()]).ok()?;
    let last: Vec<_> = array.chunk_grid_shape().iter().map(|count| count.saturating_sub(1)).collect();
    let last = array.chunk_shape(&last).ok()?;
    let first = lengths(&first);
    let counts = array.shape().iter().zip(&first).map(|(all, chunk)| all.div_ceil(*chunk));
    (first == lengths(&last) && counts.eq(array.chunk_grid_shape().iter().copied())).then_some(first)
}

/// Returns the product of lengths, if it is a number of bytes that has an address.
fn samples(shape: &[u64]) -> Option<u64> {
    let all = shape.iter().try_fold(1_u64, |all, length| all.checked_mul(*length))?;
    all.checked_mul(8).filter(|bytes| i64::try_from(*bytes).is_ok()).map(|_| all)
}

/// Returns the type of samples by its name in Zarr 3.
fn kind(name: &str) -> Option<Kind> {
    Some(match name {
        "uint8" => Kind::Unsigned8,
        "uint16" => Kind::Unsigned16,
        "uint32" => Kind::Unsigned32,
        "uint64" => Kind::Unsigned64,
        "int8" => Kind::Signed8,
        "int16" => Kind::Signed16,
        "int32" => Kind::Signed32,
        "int64" => Kind::Signed64,
        "float32" => Kind::Float32,
        "float64" => Kind::Float64,
        _ => return None,
    })
}

/// Returns the error for an array that cannot be opened, with its name.
fn refusal(store: &dyn ImageStore, path: &str, longest: u64, why: ArrayCreateError) -> CodecError {
    use ArrayCreateError as Error;
    use PluginCreateError::Unsupported;
    match why {
        Error::StorageError(StorageError::IOError(why)) => of_storage(why),
        Error::UnsupportedZarrV2Array(reason) => match unknown_codec(store, path, longest) {
            Some(name) => unsupported_part(&format!("codec {name}"), path),
            None => malformed(format!("array {path}: {reason}")),
        },
        Error::CodecsCreateError(Unsupported(part))
        | Error::DataTypeCreateError(Unsupported(part))
        | Error::ChunkGridCreateError(Unsupported(part))
        | Error::ChunkKeyEncodingCreateError(Unsupported(part))
        | Error::StorageTransformersCreateError(Unsupported(part)) => {
            let part = part.to_string();
            unsupported_part(part.strip_suffix(" is not supported").unwrap_or(&part), path)
        }
        why => malformed(format!("array {path}: {why}")),
    }
}

fn unsupported_part(part: &str, path: &str) -> CodecError {
    let what = format!("an OME-Zarr image with the {part} (array {path})");
    let remedy = "write it as integers or floats in a regular grid of chunks, with blosc, gzip, zlib, Zstandard or no codec";
    CodecError::unsupported(what, remedy)
}

/// Returns the name of a codec of an array of Zarr 2 that is not known.
fn unknown_codec(store: &dyn ImageStore, path: &str, longest: u64) -> Option<String> {
    let text = store.read(&below(path, ".zarray"), longest).ok()??;
    let about: ArrayMetadataV2 = serde_json::from_slice(&text).ok()?;
    let mut codecs = about.filters.iter().flatten().chain(&about.compressor);
    let is_unknown = |codec: Result<Codec, _>| matches!(codec, Err(PluginCreateError::Unsupported(_)));
    codecs.find(|codec| is_unknown(Codec::from_metadata(*codec))).map(|codec| codec.id().to_owned())
}

/// Returns the error for a fault of a chunk, with the chunk's name.
fn fault(key: &StoreKey, why: ArrayError) -> CodecError {
    match why {
        ArrayError::StorageError(StorageError::IOError(why)) => of_storage(why),
        why => malformed(format!("chunk {key}: {why}")),
    }
}

fn of_storage(why: Arc<io::Error>) -> CodecError {
    let shared = |why: Arc<io::Error>| io::Error::new(why.kind(), why.to_string());
    Arc::try_unwrap(why).unwrap_or_else(shared).into()
}
