//! Outputs that have not appeared yet, and those that go to standard output: all of it at once, or nothing.

use std::env;
use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use super::{PublishError, Sealed, Unpublished, Upload};

/// An output that has appeared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Published {
    /// Its length.
    pub bytes: u64,
    /// Whether it took the place of one of other settings that came to be there during this run.
    pub replaces_another: bool,
}

impl Published {
    fn new(bytes: u64) -> Self {
        Self { bytes, replaces_another: false }
    }
}

/// An output that is written, but has not appeared yet.
#[derive(Debug)]
pub enum Pending<'a> {
    /// It appears under a name.
    File(Unpublished<'a>),
    /// It is several files, the first of which appears last: once that is there, all are.
    Files(Vec<Sealed<'a>>),
    /// It appears in object storage.
    Object(Upload),
    /// It goes to standard output.
    Stream(Stream),
}

impl Pending<'_> {
    /// Returns the file to write the output's content to, which is empty at first.
    ///
    /// # Panics
    /// If it is several files, which are written before.
    pub fn file(&mut self) -> &mut File {
        match self {
            Self::File(file) => file.file(),
            Self::Files(_) => unreachable!("they are written before"),
            Self::Object(object) => object.file(),
            Self::Stream(stream) => stream.file(),
        }
    }

    /// Returns what an error of its file means.
    pub fn unwritten(&self, source: io::Error) -> PublishError {
        match self {
            Self::File(file) => file.unwritten(source),
            Self::Files(files) => {
                let output = files.first().map_or(Path::new(""), Sealed::output);
                PublishError::new(output, source)
            }
            Self::Object(object) => object.unwritten(source),
            Self::Stream(stream) => stream.unwritten(source),
        }
    }

    /// Returns the folder of its files, if they are several.
    pub fn folder(&self) -> Option<PathBuf> {
        if let Self::Files(files) = self { Some(files.first()?.output().parent()?.to_owned()) } else { None }
    }

    /// Makes the output appear.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn publish(self) -> Result<Published, PublishError> {
        let bytes = match self {
            Self::File(file) => file.publish(),
            Self::Files(files) => files.into_iter().rev().map(Sealed::publish).sum(),
            Self::Object(object) => return object.publish(),
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

    /// Returns the file, which is then no output any more.
    pub fn into_file(self) -> File {
        self.file
    }

    /// Returns what an error of its file means: the folder of temporary files is to blame.
    pub fn unwritten(&self, source: io::Error) -> PublishError {
        PublishError::new(&env::temp_dir(), source)
    }

    fn publish(mut self) -> Result<u64, PublishError> {
        self.copy().or_else(|source| match source.kind() {
            // Its reader has enough, as `head` does.
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
