//! Picture formats that are not read: their names and first bytes, and programs that convert them.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;

use crate::{CodecError, Format};

/// A format, or several that are converted alike.
struct Foreign {
    /// The noun for one of its files, with its article.
    name: &'static str,
    /// The extensions of its files, in lower case.
    extensions: &'static [&'static str],
    /// How a file is converted.
    remedy: &'static str,
}

const fn foreign(name: &'static str, extensions: &'static [&'static str], remedy: &'static str) -> Foreign {
    Foreign { name, extensions, remedy }
}

/// LibRaw's command writes the sensor's picture, developed, with 16 bits, to IN.tiff.
pub(super) const DEVELOP: &str =
    "develop it first, as in `dcraw_emu -T -6 IN` (LibRaw) or `darktable-cli IN OUT.tif`";
/// The patterns of Bio-Formats' command give each plane a file of its own.
const BIO_FORMATS: &str = "convert it first, as in `bfconvert IN OUT-s%s-z%z-c%c-t%t.tif` (Bio-Formats)";
/// Scales samples of any kind to 16 bits without a sign.
pub(super) const SCALE: &str = "scale it first, as in `gdal_translate -ot UInt16 -scale IN OUT.tif` (GDAL)";
pub(super) const TO_RGB: &str =
    "convert it to RGB first, as in `vips icc_transform IN OUT.tif srgb --input-profile cmyk` (libvips)";
pub(crate) const SPLIT: &str = "split it into single pictures first, as in `tiffsplit IN PAGE-` (libtiff)";
/// OpenSlide knows how the tiles of slides lie.
pub(crate) const STITCH: &str = "write it as one picture first, as in `vips openslideload IN 'OUT.tif[tile,pyramid,bigtiff]'` (libvips with OpenSlide)";
pub(super) const SPLIT_DICOM: &str =
    "extract the frames first, as in `dcmj2pnm --all-frames --write-16-bit-png IN OUT` (DCMTK)";
pub(super) const RECOMPRESS: &str = "compress it otherwise first, as in `tiffcp -c zip IN OUT` (libtiff)";
pub(super) const CHANNELS: &str =
    "choose channels first, as in `gdal_translate -b 1 -b 2 -b 3 -co PHOTOMETRIC=RGB IN OUT.tif` (GDAL)";
/// libtiff has no JPEG 2000, and often no LERC.
pub(super) const RECOMPRESS_JPEG_2000: &str = "compress it otherwise first, as in `python3 -c \"import tifffile; tifffile.imwrite('OUT.tif', tifffile.imread('IN'))\"` (tifffile with imagecodecs)";
pub(super) const RECOMPRESS_LERC: &str =
    "compress it otherwise first, as in `gdal_translate -co COMPRESS=DEFLATE IN OUT.tif` (GDAL)";
/// Gives each channel a file of its own.
pub(super) const EACH_CHANNEL: &str =
    "take each out first, as in `gdal_translate -b 1 IN OUT-1.tif` (GDAL), then -b 2 and so on";
/// Declares the samples gray.
pub(super) const MOSAIC: &str = "make gray of a copy first, as in `cp IN OUT.tif && tiffset -s 262 1 OUT.tif` (libtiff), or colours with the program that wrote it";
const HEIF: &str = "convert it first, as in `heif-convert IN OUT.png` (libheif)";
const PLAIN: &str = "convert it to PNG or TIFF first";

/// The formats, by the names that [`by_head`] gives to content.
const FORMATS: [Foreign; 27] = [
    foreign("a HEIC (HEIF)", &["heic", "heif", "hif"], HEIF),
    foreign("an AVIF", &["avif"], HEIF),
    foreign(
        "an OpenEXR picture",
        &["exr"],
        "convert it first, as in `oiiotool IN -d uint16 -o OUT.tif` (OpenImageIO)",
    ),
    foreign(
        "a Photoshop document",
        &["psd", "psb"],
        "convert it first, as in `convert 'IN[0]' OUT.png` (ImageMagick; [0] is all layers)",
    ),
    foreign(
        "a FITS file",
        &["fits", "fit", "fts"],
        "convert it first, as in `gdal_translate -ot UInt16 -scale IN OUT.tif` (GDAL)",
    ),
    foreign("a NIfTI volume", &["nii"], "take its slices out first, as 16-bit TIFF or PNG"),
    foreign("a Fujifilm raw file", &["raf"], DEVELOP),
    foreign("a Canon raw file", &["cr2", "cr3", "crw"], DEVELOP),
    foreign("a Nikon raw file", &["nef", "nrw"], DEVELOP),
    foreign("a Sony raw file", &["arw", "srf", "sr2"], DEVELOP),
    foreign("a DNG raw file", &["dng"], DEVELOP),
    foreign("an Olympus raw file", &["orf"], DEVELOP),
    foreign("a Panasonic raw file", &["rw2"], DEVELOP),
    foreign("a Pentax raw file", &["pef"], DEVELOP),
    foreign("a Samsung raw file", &["srw"], DEVELOP),
    foreign("a Sigma raw file", &["x3f"], DEVELOP),
    foreign("a Minolta raw file", &["mrw"], DEVELOP),
    foreign("a Hasselblad raw file", &["3fr", "fff"], DEVELOP),
    foreign("a Phase One raw file", &["iiq"], DEVELOP),
    foreign("a Kodak raw file", &["dcr", "kdc"], DEVELOP),
    foreign("an Epson raw file", &["erf"], DEVELOP),
    foreign("a Nikon microscope file (ND2)", &["nd2"], BIO_FORMATS),
    foreign("a Zeiss microscope file (CZI)", &["czi"], BIO_FORMATS),
    foreign("a Leica microscope file (LIF)", &["lif", "xlef", "lof"], BIO_FORMATS),
    foreign("an Olympus microscope file", &["oib", "oif", "oir", "vsi"], BIO_FORMATS),
    foreign("an Imaris file (IMS)", &["ims"], BIO_FORMATS),
    foreign("an electron micrograph (MRC)", &["mrc"], BIO_FORMATS),
];

/// Extensions of further formats, which other programs write.
///
/// Files with them are not taken for pictures in folders.
const ELSEWHERE: [&str; 26] = [
    "tga", "pcx", "ico", "cur", "icns", "hdr", "dds", "qoi", "ff", "sgi", "ras", "xbm", "xpm", "pict", "jxr",
    "wdp", "mng", "jng", "flif", "svg", "eps", "ps", "pdf", "xcf", "kra", "mp4",
];

/// Returns whether a file's name is that of a picture in a format that is not written.
pub fn names_unwritten(path: &Path) -> bool {
    match Format::of_name(path) {
        Some(format) => !format.is_written(),
        None => names_foreign(path) || has_one_of(path, &ELSEWHERE),
    }
}

/// Returns whether a file's name is that of a picture in a format that is not read.
pub fn names_foreign(path: &Path) -> bool {
    by_name(path).is_some()
}

/// Returns the error for a file of unknown content, by the format that its name stands for.
pub fn refused_by_name(path: &Path) -> Option<CodecError> {
    by_name(path).map(|Foreign { name, remedy, .. }| CodecError::unsupported(*name, *remedy))
}

/// Returns the error for a file of the format with this name.
pub(crate) fn refused(name: &'static str) -> CodecError {
    let known = FORMATS.iter().find(|format| format.name == name);
    CodecError::unsupported(name, known.map_or(PLAIN, |format| format.remedy))
}

fn by_name(path: &Path) -> Option<&'static Foreign> {
    FORMATS.iter().find(|format| has_one_of(path, format.extensions))
}

/// Returns whether a file's name has one of these extensions, in any case.
fn has_one_of(path: &Path, extensions: &[&str]) -> bool {
    let own = path.extension().and_then(OsStr::to_str);
    own.is_some_and(|own| extensions.iter().any(|known| known.eq_ignore_ascii_case(own)))
}

/// Returns the name of the camera's or microscope's format with these first bytes.
///
/// Raw files that are TIFFs are known by their tags.
pub(crate) fn by_content(head: &[u8]) -> Option<&'static str> {
    match head {
        [b'F', b'U', b'J', b'I', b'F', b'I', b'L', b'M', b'C', b'C', b'D', b'-', b'R', b'A', b'W', ..] => {
            Some("a Fujifilm raw file")
        }
        [_, _, _, _, b'f', b't', b'y', b'p', b'c', b'r', b'x', b' ', ..]
        | [b'I', b'I', 0x1a, 0, 0, 0, b'H', b'E', b'A', b'P', ..] => Some("a Canon raw file"),
        [b'I', b'I', b'R', b'O' | b'S', ..] | [b'M', b'M', b'O', b'R', ..] => Some("an Olympus raw file"),
        [b'I', b'I', b'U', 0, ..] => Some("a Panasonic raw file"),
        [b'F', b'O', b'V', b'b', ..] => Some("a Sigma raw file"),
        [0, b'M', b'R', b'M', ..] => Some("a Minolta raw file"),
        [0xda, 0xce, 0xbe, 0x0a, ..] => Some("a Nikon microscope file (ND2)"),
        [b'Z', b'I', b'S', b'R', b'A', b'W', b'F', b'I', b'L', b'E', ..] => {
            Some("a Zeiss microscope file (CZI)")
        }
        [0x70, 0, 0, 0, _, _, _, _, 0x2a, ..] => Some("a Leica microscope file (LIF)"),
        _ => None,
    }
}

/// Returns the name of an unsupported picture format that the first bytes of a file belong to.
pub(crate) fn by_head(head: &[u8]) -> Option<&'static str> {
    if let [0x1f, 0x8b, 8, ..] = head {
        return compressed(head);
    }
    match head {
        [0x76, 0x2f, 0x31, 0x01, ..] => Some("an OpenEXR picture"),
        [b'8', b'B', b'P', b'S', ..] => Some("a Photoshop document"),
        [_, _, _, _, b'f', b't', b'y', b'p', b'a', b'v', b'i', b'f' | b's', ..] => Some("an AVIF"),
        [_, _, _, _, b'f', b't', b'y', b'p', b'h', b'e', b'i' | b'v', ..]
        | [_, _, _, _, b'f', b't', b'y', b'p', b'm', b'i', b'f', b'1', ..] => Some("a HEIC (HEIF)"),
        _ if head.starts_with(b"SIMPLE  =") => Some("a FITS file"),
        _ if is_nifti(head) => Some("a NIfTI volume"),
        _ => None,
    }
}

/// Returns whether a file begins with a NIfTI header, version 1 or 2.
///
/// That is its own length and, elsewhere, a magic (<https://nifti.nimh.nih.gov/>).
fn is_nifti(head: &[u8]) -> bool {
    let Some((length, _)) = head.split_first_chunk::<4>() else { return false };
    let lengths = [u32::from_le_bytes(*length), u32::from_be_bytes(*length)];
    lengths.contains(&348) && matches!(head.get(344..348), Some(b"n+1\0" | b"ni1\0"))
        || lengths.contains(&540) && matches!(head.get(4..8), Some(b"n+2\0" | b"ni2\0"))
}

/// Returns the name of the picture format in a gzip file, as of volumes and telescopes' pictures.
fn compressed(head: &[u8]) -> Option<&'static str> {
    const NEEDED: u64 = 544;
    let mut start = Vec::new();
    // Data missing after the head makes no difference.
    let _ = flate2::read::GzDecoder::new(head).take(NEEDED).read_to_end(&mut start);
    match start {
        _ if start.starts_with(b"SIMPLE  =") => Some("a compressed FITS file"),
        _ if is_nifti(&start) => Some("a compressed NIfTI volume"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::io::Write;

    #[test]
    fn an_extension_is_that_of_one_format() {
        let foreign = FORMATS.iter().flat_map(|format| format.extensions);
        let foreign = foreign.chain(&ELSEWHERE);
        let all: Vec<_> = foreign.chain(Format::ALL.iter().flat_map(|format| format.extensions())).collect();
        assert_eq!(all.len(), all.iter().collect::<HashSet<_>>().len());
    }

    #[test]
    fn what_is_known_by_its_content_has_a_remedy_too() {
        for head in
            [&b"FUJIFILMCCD-RAW 0201"[..], b"\0\0\0\x18ftypcrx \0", b"ZISRAWFILE\0\0", b"\xda\xce\xbe\x0a"]
        {
            let why = refused(by_content(head).unwrap()).to_string();
            assert!(!why.ends_with(PLAIN) && why.contains(" is not supported; "), "{why}");
        }
        assert_eq!(by_content(b"II*\0"), None);
    }

    #[test]
    fn scientific_formats_are_known_from_their_first_bytes() {
        let padded = |head: &[u8], at: usize, mark: &[u8]| {
            let mut bytes = head.to_vec();
            bytes.resize(at, 0);
            bytes.extend(mark);
            bytes.resize(1000, 0);
            bytes
        };
        let gzipped = |bytes: &[u8]| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        };
        let fits = padded(b"SIMPLE  =                    T", 80, b"BITPIX  =");
        let nifti = padded(&348_u32.to_le_bytes(), 344, b"n+1\0");
        for (bytes, name) in [
            (padded(&348_u32.to_be_bytes(), 344, b"ni1\0"), "a NIfTI volume"),
            (padded(&540_u32.to_le_bytes(), 4, b"n+2\0"), "a NIfTI volume"),
            (gzipped(&nifti), "a compressed NIfTI volume"),
            (nifti, "a NIfTI volume"),
            (gzipped(&fits), "a compressed FITS file"),
            (fits, "a FITS file"),
        ] {
            assert_eq!(by_head(&bytes), Some(name));
        }
        let texts: [&[u8]; 3] = [b"SIMPLE THINGS", b"n+1", b"\x1f\x8b\x08"];
        for bytes in texts.into_iter().chain([&gzipped(b"a text")[..]]) {
            assert_eq!(by_head(bytes), None, "{bytes:?}");
        }
    }
}
