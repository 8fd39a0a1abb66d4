//! Where pictures go after the devices: encoded into the output tree, or to standard output.

use std::fs::File;
use std::path::Path;

use crate::config::Settings;
use crate::error::{Error, PictureError};
use crate::publish::{Pending, Publisher, Stream};
use crate::record::{Digest, Origin};
use crate::source::Job;
use crate::task::{Content, Processed};
use codec::{self, CodecError, Cores, Target};

/// The destination of the pictures that the devices are done with, shared by all encode threads.
pub trait Outlet: Sync {
    /// Checks, before anything is decoded, that there is a place for the outputs.
    ///
    /// # Errors
    /// If there is none.
    fn check(&self) -> Result<(), Error>;

    /// Takes what the devices left in the slot, and returns the output to publish, if there is one. `scratch` is reused from picture to
    /// picture. Idle `cores` may help.
    ///
    /// # Errors
    /// If this picture cannot be taken. Others may still be.
    fn take(
        &self,
        finished: &mut Processed,
        scratch: &mut Vec<u8>,
        cores: &Cores,
    ) -> Result<Option<Pending<'_>>, PictureError>;

    /// Notes that the picture of this job will not come: it failed, or the run is stopping.
    fn miss(&self, _job: &Job) {}
}

/// An outlet that encodes pictures into the output tree.
pub struct OutputFolder<'a> {
    /// The root of the output tree.
    out: &'a Path,
    /// The format, quality and channels of the outputs.
    target: &'a Target,
    /// Writes the outputs.
    publisher: &'a Publisher,
    /// What the record of an output says of the settings.
    settings: Digest,
}

impl<'a> OutputFolder<'a> {
    /// Creates an outlet for the outputs of a run with these settings, below the folder `out`.
    pub fn new(settings: &'a Settings, out: &'a Path, publisher: &'a Publisher) -> Self {
        let digest = Digest::of(settings.of_outputs().as_bytes());
        Self { out, target: &settings.target, publisher, settings: digest }
    }
}

impl Outlet for OutputFolder<'_> {
    fn check(&self) -> Result<(), Error> {
        Ok(self.publisher.check(self.out)?)
    }

    fn take(
        &self,
        finished: &mut Processed,
        scratch: &mut Vec<u8>,
        cores: &Cores,
    ) -> Result<Option<Pending<'_>>, PictureError> {
        let mut output = self.publisher.begin(self.out, &finished.picture.work.job.output)?;
        encode(finished, self.target, scratch, cores, output.file())
            .map_err(|error| PictureError::of_encoder(error, |source| output.unwritten(source)))?;
        if let Some(input) = finished.picture.work.job.stamp {
            output.record(Origin { input, settings: self.settings });
        }
        if !finished.picture.work.job.replaces {
            output.replace_nothing();
        }
        Ok(Some(Pending::File(output)))
    }
}

/// An outlet that encodes the only picture of a run to standard output.
pub struct StandardOutput<'a> {
    /// The format, quality and channels of the output.
    pub target: &'a Target,
}

impl Outlet for StandardOutput<'_> {
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }

    fn take(
        &self,
        finished: &mut Processed,
        scratch: &mut Vec<u8>,
        cores: &Cores,
    ) -> Result<Option<Pending<'_>>, PictureError> {
        let mut output = Stream::begin()?;
        encode(finished, self.target, scratch, cores, output.file())
            .map_err(|error| PictureError::of_encoder(error, |source| output.unwritten(source)))?;
        Ok(Some(Pending::Stream(output)))
    }
}

/// Encodes what the devices left in the slot into a file.
fn encode(
    finished: &mut Processed,
    target: &Target,
    scratch: &mut Vec<u8>,
    cores: &Cores,
    file: &mut File,
) -> Result<(), CodecError> {
    let Processed { slot, content, picture, .. } = finished;
    let decoded = &mut picture.decoded;
    match *content {
        Content::Encoded(bytes) => codec::write_encoded(decoded, &slot.bytes()[..bytes as usize], file),
        _ => {
            decoded.reduce_depth(slot.bytes_mut(), target);
            codec::encode(decoded, slot.bytes_mut(), target, scratch, cores, file)
        }
    }?;
    Ok(())
}
