//! What is written, and what is refused before it is read. To move to `codec`.

/// A family of picture files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// TIFF.
    Tiff,
    /// PGM, PPM and PAM.
    Pnm,
    /// BMP.
    Bmp,
    /// WebP.
    WebP,
}

/// The quality of a JPEG that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JpegQuality {
    /// The source's own quantisation tables.
    Keep,
    /// libjpeg's scale, 1 to 100.
    Value(u8),
}

/// How much work goes into making a PNG small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PngLevel {
    /// Least work.
    Fast,
    /// The default.
    Balanced,
    /// Most work.
    Small,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The format; `None` keeps the source's.
    pub format: Option<Format>,
    /// The quality of JPEGs.
    pub jpeg_quality: JpegQuality,
    /// The work put into PNGs.
    pub png_level: PngLevel,
    /// Whether colour becomes gray.
    pub gray: bool,
    /// Whether the channels of a colour picture are equalized one by one.
    pub per_channel: bool,
}

/// The largest picture that is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Width times height.
    pub max_pixels: u64,
    /// Bytes of the decoded pixels.
    pub max_bytes: u64,
}
