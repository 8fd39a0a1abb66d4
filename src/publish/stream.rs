//! Outputs that have not appeared yet, including standard output, which gets all of its content at
//! once or no content.

use std::env;
use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use codec::multiscales::Medium;

use super::{ImageUpload, PublishError, Published, Sealed, Unpublished, Upload};

/// An output that is written, but has not appeared yet.
#[derive(Debug)]
pub enum Pending<'a> {
    /// It appears under a name.
    File(Unpublished<'a>),
    /// It is complete, and appears under a name.
    Sealed(Sealed<'a>),
    /// It appears in object storage.
    Object(Upload),
    /// It is an image, which appears in object storage.
    Image(ImageUpload),
    /// Several outputs. The first appears last: once it is there, all are.
    Pages(Vec<Self>),
    /// It goes to standard output.
    Stream(Stream),
}

impl Pending<'_> {
    /// Returns the file to write the output's content to, which is empty at first.
    ///
    /// # Panics
    /// If it is written already.
    pub fn file(&mut self) -> &mut File {
        match self {
            Self::File(file) => file.file(),
            Self::Object(object) => object.file(),
            Self::Stream(stream) => stream.file(),
            Self::Image(_) => unreachable!("it is written page by page"),
            Self::Sealed(_) | Self::Pages(_) => unreachable!("it is written already"),
        }
    }

    /// Returns the medium to write its pages to, which is empty at first.
    ///
    /// # Errors
    /// When the process has no more descriptors.
    ///
    /// # Panics
    /// If it is written already.
    pub fn medium(&mut self) -> Result<Medium, PublishError> {
        if let Self::Image(image) = self {
            return Ok(Medium::Image(image.store()));
        }
        self.file().try_clone().map(Medium::File).map_err(|source| self.unwritten(source))
    }

    /// Closes its file, which is written. An object's stays open: it has no name to be found by.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn seal(self) -> Result<Self, PublishError> {
        match self {
            Self::File(file) => file.seal().map(Self::Sealed),
            other => Ok(other),
        }
    }

    /// Converts an error of its file.
    pub fn unwritten(&self, source: io::Error) -> PublishError {
        match self {
            Self::File(file) => file.unwritten(source),
            Self::Object(object) => object.unwritten(source),
            Self::Image(image) => image.unwritten(source),
            Self::Stream(stream) => stream.unwritten(source),
            Self::Sealed(_) | Self::Pages(_) => {
                PublishError::new(self.output().unwrap_or(Path::new("")), source)
            }
        }
    }

    /// Returns the folder of its outputs, if they are several.
    pub fn folder(&self) -> Option<PathBuf> {
        if let Self::Pages(_) = self { Some(self.output()?.parent()?.to_owned()) } else { None }
    }

    /// Returns the name that it will have; the first of several.
    fn output(&self) -> Option<&Path> {
        match self {
            Self::File(file) => Some(file.output()),
            Self::Sealed(sealed) => Some(sealed.output()),
            Self::Object(object) => Some(object.output()),
            Self::Image(image) => Some(image.output()),
            Self::Pages(pages) => pages.first()?.output(),
            Self::Stream(_) => None,
        }
    }

    /// Makes the output appear.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn publish(self) -> Result<Published, PublishError> {
        let bytes = match self {
            Self::File(file) => file.publish(),
            Self::Sealed(sealed) => sealed.publish(),
            Self::Object(object) => return object.publish(),
            Self::Image(image) => return image.publish(),
            Self::Pages(pages) => return pages.into_iter().rev().map(Self::publish).sum(),
            Self::Stream(stream) => stream.publish(),
        };
        bytes.map(Published::new)
    }
}

/// An output for standard output, in an unnamed temporary file until it is whole.
#[derive(Debug)]
pub struct Stream {
    file: File,
}

impl Stream {
    /// Starts the output.
    ///
    /// # Errors
    /// When there is no room for it among the temporary files.
    pub fn begin() -> Result<Self, PublishError> {
        tempfile::tempfile()
            .map(|file| Self { file })
            .map_err(|source| PublishError::new(&env::temp_dir(), source))
    }

    /// Returns the file to write the output's content to, which is empty at first.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Returns the file, which is then not an output any more.
    pub fn into_file(self) -> File {
        self.file
    }

    /// Converts an error of its file: the folder of temporary files is to blame.
    pub fn unwritten(&self, source: io::Error) -> PublishError {
        PublishError::new(&env::temp_dir(), source)
    }

    fn publish(mut self) -> Result<u64, PublishError> {
        self.copy().or_else(|source| match source.kind() {
            // Its reader has closed it, as `head` does when it has enough.
            io::ErrorKind::BrokenPipe => Ok(0),
            _ => Err(PublishError::new(Path::new("standard output"), source)),
        })
    }

    fn copy(&mut self) -> io::Result<u64> {
        self.file.rewind()?;
        let mut stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        io::copy(&mut self.file, &mut stdout)
    }
}
