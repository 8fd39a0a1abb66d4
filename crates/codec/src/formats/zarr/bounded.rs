//! Compression of chunks that unpacks to no more bytes than a chunk of the array has.
//!
//! The codecs of `zarrs` take as much memory as a stream claims or fills, and check its length
//! afterwards.

use std::borrow::Cow;
use std::io::{self, Read};
use std::sync::{Arc, Once};

use flate2::bufread::{GzDecoder, ZlibDecoder};
use zarrs::array::codec::api::{
    BytesRepresentation, BytesToBytesCodecTraits, Codec, CodecError, CodecMetadataOptions, CodecOptions,
    CodecRuntimePluginV2, CodecRuntimePluginV3, CodecTraits, CodecTraitsV2, CodecTraitsV3,
    PartialDecoderCapability, PartialEncoderCapability, RecommendedConcurrency, register_codec_v2,
    register_codec_v3,
};
use zarrs::array::codec::{BloscCodec, GzipCodec, ZlibCodec, ZstdCodec};
use zarrs::array::{Array, ArrayBuilder, ArrayCreateError};
use zarrs::metadata::Configuration;
use zarrs::plugin::{ExtensionAliases, ExtensionName, ZarrVersion, ZarrVersion2, ZarrVersion3};

/// The first bytes of a member of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The bytes of a chunk before or after a codec.
type Raw<'a> = Cow<'a, [u8]>;

/// Unpacks a stream to at most so many bytes.
type Unpack = fn(&[u8], u64) -> io::Result<Vec<u8>>;

/// How a codec is bounded.
#[derive(Clone, Copy, Debug)]
enum Bound {
    /// By another decoder.
    Unpack(Unpack),
    /// By the number of bytes that the head of the stream states, to which the codec keeps.
    Stated(fn(&[u8]) -> Option<u64>),
}

/// Makes all arrays that are opened from here on use the bounded codecs.
pub(super) fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        register_one::<GzipCodec>(Bound::Unpack(unpack_gzip));
        register_one::<ZlibCodec>(Bound::Unpack(|packed, most| read(ZlibDecoder::new(packed), most)));
        register_one::<ZstdCodec>(Bound::Unpack(unpack_zstd));
        register_one::<BloscCodec>(Bound::Stated(stated_by_blosc));
    });
}

fn register_one<C>(bound: Bound)
where
    C: ExtensionAliases<ZarrVersion2>
        + ExtensionAliases<ZarrVersion3>
        + CodecTraitsV2
        + CodecTraitsV3
        + 'static,
{
    register_codec_v2(CodecRuntimePluginV2::new(
        <C as ExtensionAliases<ZarrVersion2>>::matches_name,
        move |metadata| Ok(bounded(<C as CodecTraitsV2>::create(metadata)?, bound)),
    ));
    register_codec_v3(CodecRuntimePluginV3::new(
        <C as ExtensionAliases<ZarrVersion3>>::matches_name,
        move |metadata| Ok(bounded(<C as CodecTraitsV3>::create(metadata)?, bound)),
    ));
}

/// Returns an array whose codecs are all bounded.
///
/// Those of blosc in Zarr 2 are made without asking for the registered ones.
///
/// # Errors
/// Those of an array that is made.
pub(super) fn with_all<S>(array: Array<S>) -> Result<Array<S>, ArrayCreateError> {
    let codecs = array.codecs();
    let is_blosc = |codec: &Arc<dyn BytesToBytesCodecTraits>| codec.as_any().is::<BloscCodec>();
    if !codecs.bytes_to_bytes_codecs().iter().any(is_blosc) {
        return Ok(array);
    }
    let bounded = codecs.bytes_to_bytes_codecs().iter().map(|codec| match is_blosc(codec) {
        true => Arc::new(Bounded { inner: Arc::clone(codec), bound: Bound::Stated(stated_by_blosc) }),
        false => Arc::clone(codec),
    });
    let bounded = bounded.collect();
    ArrayBuilder::from_array(&array)
        .fill_value(array.fill_value().clone())
        .bytes_to_bytes_codecs(bounded)
        .build(array.storage(), array.path().as_str())
}

fn bounded(codec: Codec, bound: Bound) -> Codec {
    match codec {
        Codec::BytesToBytes(inner) => Codec::BytesToBytes(Arc::new(Bounded { inner, bound })),
        other => other,
    }
}

/// Reads a stream to its end, which is at most `most` bytes away.
fn read(stream: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    read_on(stream, &mut unpacked, most)?;
    Ok(unpacked)
}

/// Adds a stream to bytes that may be at most `most` bytes then.
fn read_on(stream: impl Read, unpacked: &mut Vec<u8>, most: u64) -> io::Result<()> {
    let room = most.saturating_sub(unpacked.len() as u64);
    stream.take(room.saturating_add(1)).read_to_end(unpacked)?;
    if unpacked.len() as u64 <= most { Ok(()) } else { Err(too_long(most)) }
}

/// Unpacks all members of a file of gzip (RFC 1952, 2.2).
fn unpack_gzip(packed: &[u8], most: u64) -> io::Result<Vec<u8>> {
    let (mut unpacked, mut left) = (Vec::new(), packed);
    loop {
        let mut member = GzDecoder::new(left);
        read_on(&mut member, &mut unpacked, most)?;
        left = member.into_inner();
        if !left.starts_with(&GZIP) {
            return Ok(unpacked);
        }
    }
}

fn unpack_zstd(packed: &[u8], most: u64) -> io::Result<Vec<u8>> {
    let room = usize::try_from(most).map_err(|_| too_long(most))?;
    zstd::bulk::decompress(packed, room)
}

/// Returns the bytes that a buffer of blosc takes when it is unpacked: its samples, or a block of
/// them if that is longer.
///
/// Source: <https://github.com/Blosc/c-blosc/blob/main/README_CHUNK_FORMAT.rst>.
fn stated_by_blosc(packed: &[u8]) -> Option<u64> {
    let number = |at: usize| Some(u32::from_le_bytes(packed.get(at..at + 4)?.try_into().ok()?));
    let (samples, block) = (number(4)?, number(8)?);
    Some(u64::from(samples.max(block)))
}

fn too_long(most: u64) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("it unpacks to more than the {most} bytes of its samples"),
    )
}

/// A codec whose chunks are unpacked within their length.
#[derive(Debug)]
struct Bounded {
    inner: Arc<dyn BytesToBytesCodecTraits>,
    bound: Bound,
}

impl ExtensionName for Bounded {
    fn name(&self, version: ZarrVersion) -> Option<Cow<'static, str>> {
        self.inner.name(version)
    }
}

impl CodecTraits for Bounded {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn configuration(&self, version: ZarrVersion, options: &CodecMetadataOptions) -> Option<Configuration> {
        self.inner.configuration(version, options)
    }

    fn partial_decoder_capability(&self) -> PartialDecoderCapability {
        self.inner.partial_decoder_capability()
    }

    fn partial_encoder_capability(&self) -> PartialEncoderCapability {
        self.inner.partial_encoder_capability()
    }
}

impl BytesToBytesCodecTraits for Bounded {
    fn into_dyn(self: Arc<Self>) -> Arc<dyn BytesToBytesCodecTraits> {
        self
    }

    fn recommended_concurrency(
        &self,
        decoded: &BytesRepresentation,
    ) -> Result<RecommendedConcurrency, CodecError> {
        self.inner.recommended_concurrency(decoded)
    }

    fn encoded_representation(&self, decoded: &BytesRepresentation) -> BytesRepresentation {
        self.inner.encoded_representation(decoded)
    }

    fn encode<'a>(&self, decoded: Raw<'a>, options: &CodecOptions) -> Result<Raw<'a>, CodecError> {
        self.inner.encode(decoded, options)
    }

    fn decode<'a>(
        &self,
        encoded: Raw<'a>,
        decoded: &BytesRepresentation,
        options: &CodecOptions,
    ) -> Result<Raw<'a>, CodecError> {
        let failed = |why: io::Error| CodecError::Other(why.to_string());
        let unbounded = || CodecError::Other("the length of its samples is unknown".to_owned());
        let most = decoded.size().ok_or_else(unbounded)?;
        match self.bound {
            Bound::Unpack(unpack) => unpack(&encoded, most).map(Cow::Owned).map_err(failed),
            Bound::Stated(stated) if stated(&encoded).is_some_and(|bytes| bytes > most) => {
                Err(failed(too_long(most)))
            }
            Bound::Stated(_) => self.inner.decode(encoded, decoded, options),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn members_of_gzip_are_one_chunk_within_its_length() {
        let member = |part: &[u8]| {
            let mut member = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            member.write_all(part).unwrap();
            member.finish().unwrap()
        };
        let (one, other) = (vec![1; 5000], vec![2; 3000]);
        let packed = [member(&one), member(b""), member(&other)].concat();
        assert_eq!(unpack_gzip(&packed, 8000).unwrap(), [&one[..], &other].concat());
        assert!(unpack_gzip(&packed, 7999).is_err() && unpack_gzip(&packed, 4999).is_err());
        assert!(unpack_gzip(&packed[..packed.len() - 1], 8000).is_err());
        // Bytes after the last member are padding.
        assert_eq!(unpack_gzip(&[member(&one), vec![0; 9]].concat(), 5000).unwrap(), one);
    }

    #[test]
    fn what_unpacks_to_more_than_it_may_is_refused() {
        let zeros = vec![0; 1 << 20];
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&zeros).unwrap();
        zlib.write_all(&zeros).unwrap();
        let streamed = zstd::stream::encode_all(&zeros[..], 1).unwrap();
        let unpackers: [(Unpack, Vec<u8>); 4] = [
            (unpack_gzip, gzip.finish().unwrap()),
            (|packed, most| read(ZlibDecoder::new(packed), most), zlib.finish().unwrap()),
            (unpack_zstd, zstd::bulk::compress(&zeros, 1).unwrap()),
            (unpack_zstd, streamed),
        ];
        for (number, (unpack, packed)) in unpackers.into_iter().enumerate() {
            assert_eq!(unpack(&packed, 1 << 20).unwrap(), zeros, "{number}");
            assert!(unpack(&packed, (1 << 20) - 1).is_err(), "{number}");
            assert!(unpack(&packed[..packed.len() / 2], 1 << 20).is_err(), "{number}");
        }
        // Version, flags, size of a sample; then the bytes of samples, of a block and of all.
        let head = |samples: u32, block: u32| {
            [&[2, 1, 1, 1][..], &samples.to_le_bytes(), &block.to_le_bytes(), &[20, 0, 0, 0]].concat()
        };
        assert_eq!(stated_by_blosc(&head(512 << 20, 9)), Some(512 << 20));
        assert_eq!(stated_by_blosc(&head(9, 512 << 20)), Some(512 << 20));
        assert_eq!(stated_by_blosc(&head(9, 9)[..9]), None, "the codec refuses it");
        // A frame that claims a terabyte takes no more memory than there is room for.
        let frame = [&[0x28, 0xb5, 0x2f, 0xfd, 0xe0][..], &(1_u64 << 40).to_le_bytes(), &[1, 0, 0]].concat();
        assert!(unpack_zstd(&frame, 100).is_err());
    }
}
