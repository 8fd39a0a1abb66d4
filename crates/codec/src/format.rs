//! The file formats, for reading and for writing.

use std::fmt;

/// A file format, for reading and for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Portable Network Graphics.
    Png,
    /// JPEG, baseline and progressive.
    Jpeg,
    /// TIFF and BigTIFF.
    Tiff,
    /// PBM, PGM, PPM, PAM and PFM.
    Pnm,
    /// Windows bitmap.
    Bmp,
    /// WebP; always written losslessly.
    WebP,
    /// GIF.
    Gif,
    /// JPEG XL; never written.
    JpegXl,
    /// JPEG 2000; never written.
    Jpeg2000,
    /// DICOM; written only of DICOM.
    Dicom,
    /// OME-Zarr, whose pictures are folders; written only of OME-Zarr.
    Zarr,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
