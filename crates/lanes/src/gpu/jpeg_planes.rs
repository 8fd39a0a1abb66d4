//! How the planes of a JPEG lie in device memory.

use super::driver::Address;
use super::nvjpeg::{Header, Plane};
use crate::lane::LaneError;
use codec::CompressedJpeg;

/// The alignment of planes in device memory, in bytes.
const ALIGNMENT: u64 = 256;

impl Header {
    /// Parses the header of a file and lays out its planes from address `start` on; returns them and where they end. The sides of chroma
    /// planes are padded to multiples of `padding` samples; those of luma are not.
    pub(super) fn open(
        &mut self,
        file: Option<&[u8]>,
        jpeg: &CompressedJpeg,
        start: Address,
        padding: u32,
    ) -> Result<(Vec<Plane>, Address), LaneError> {
        let decline = |reason: &str| LaneError::Decline(reason.to_owned());
        self.parse(file.ok_or_else(|| decline("its file is longer than its slot"))?)?;
        let sizes = self.planes()?;
        let is_as_said = self.is_sampled(jpeg.sampling)?
            && sizes.len() == jpeg.sampling.planes()
            && sizes[0] == (jpeg.layout.width, jpeg.layout.height);
        if !is_as_said {
            return Err(decline("nvJPEG reads its header differently"));
        }
        let mut end = start;
        let plane = |(number, (width, height)): (usize, (u32, u32))| {
            let padded = |side: u32| if number == 0 { side } else { side.next_multiple_of(padding) };
            let plane = Plane { at: end, width, height, pitch: padded(width), rows: padded(height) };
            end += plane.bytes().next_multiple_of(ALIGNMENT);
            plane
        };
        let planes = sizes.into_iter().enumerate().map(plane).collect();
        Ok((planes, end))
    }
}
