//! A folder with an image in it: no links are followed, and only regular files are opened.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_NOW};
use rustix::fs::{futimens, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use zarrs::storage::byte_range::{ByteRangeIterator, extract_byte_ranges};
use zarrs::storage::{
    Bytes, MaybeBytes, MaybeBytesIterator, OffsetBytesIterator, ReadableStorageTraits, StorageError,
    StoreKey, StorePrefix, WritableStorageTraits,
};

use crate::io::image_store::{ImageStore, MediumRef};
use crate::io::input::waiting_for_file;

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
/// The permissions of new folders and files, before the process's umask removes some of them.
const NEW_FOLDER: Mode = Mode::from_raw_mode(0o777);
const NEW_FILE: Mode = Mode::from_raw_mode(0o666);

/// An open folder. Files below it go by paths with slashes, such as "0/c/1/2".
#[derive(Clone, Debug)]
pub(super) struct Folder {
    file: Arc<File>,
}

impl Folder {
    /// Returns the folder of an open file that is one.
    ///
    /// # Errors
    /// When the process has no more descriptors.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        Ok(Self { file: Arc::new(file.try_clone()?) })
    }

    /// Opens a regular file; `None` if it is missing.
    ///
    /// # Errors
    /// When there is something else, or it cannot be opened.
    fn open_file(&self, path: &str) -> io::Result<Option<File>> {
        let opened = self.folder_of(path, false).and_then(|(folder, name)| {
            let file = File::from(openat(folder, name, OFlags::RDONLY | FILE, Mode::empty())?);
            if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
        });
        match opened {
            Ok(file) => Ok(Some(file)),
            Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
            Err(why) => Err(named(path, &why)),
        }
    }

    /// Creates a file, or empties it if it is there, and the folders above it.
    ///
    /// # Errors
    /// When it cannot be created.
    pub(super) fn create(&self, path: &str) -> io::Result<File> {
        self.open_new(path, OFlags::TRUNC)
    }

    /// Opens a file for reading and writing; creates it, and the folders above it, if missing.
    ///
    /// # Errors
    /// When it can be neither opened nor created.
    pub(super) fn keep(&self, path: &str) -> io::Result<File> {
        self.open_new(path, OFlags::empty())
    }

    fn open_new(&self, path: &str, how: OFlags) -> io::Result<File> {
        let (folder, name) = self.folder_of(path, true)?;
        let flags = OFlags::RDWR | OFlags::CREATE | how | FILE;
        Ok(openat(folder, name, flags, NEW_FILE)?.into())
    }

    /// Sets the folder's time, where possible, as a sign that something in it was written to.
    pub(super) fn touch(&self) {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let _ = futimens(&*self.file, &Timestamps { last_access: now, last_modification: now });
    }

    /// Removes a file, if it is there.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub(super) fn remove_file(&self, path: &str) -> io::Result<()> {
        match self
            .folder_of(path, false)
            .and_then(|(folder, name)| Ok(unlinkat(folder, name, AtFlags::empty())?))
        {
            Err(why) if why.kind() != ErrorKind::NotFound => Err(why),
            _ => Ok(()),
        }
    }

    /// Returns the entries of the folder at a path: names, and whether they are folders.
    ///
    /// The path is empty for the folder itself.
    ///
    /// # Errors
    /// When it cannot be listed, or holds anything but regular files and folders, such as a link.
    pub(super) fn list(&self, path: &str) -> io::Result<Vec<(String, bool)>> {
        let folder = self.open_folder(path)?;
        let mut listed = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry
                .file_name()
                .to_str()
                .map_err(|_| io::Error::other("it holds a name that is not UTF-8"))?;
            if matches!(name, "." | "..") {
                continue;
            }
            let is_folder = match file_type(&folder, name, entry.file_type())? {
                FileType::Directory => true,
                FileType::RegularFile => false,
                _ => {
                    let below = below(path, name);
                    return Err(io::Error::other(format!(
                        "{below} is a link or a special file; replace it by a copy of its target"
                    )));
                }
            };
            listed.push((name.to_owned(), is_folder));
        }
        listed.sort_unstable();
        Ok(listed)
    }

    /// Opens the folder that a path leads into, and returns it with the last name.
    fn folder_of<'p>(&self, path: &'p str, creates: bool) -> io::Result<(OwnedFd, &'p str)> {
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut folder = OwnedFd::from(self.file.try_clone()?);
        for step in folders.split('/').filter(|step| !step.is_empty()) {
            if creates {
                match mkdirat(&folder, step, NEW_FOLDER) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(why) => return Err(why.into()),
                }
            }
            folder = openat(&folder, step, OFlags::RDONLY | FOLDER, Mode::empty())?;
        }
        Ok((folder, name))
    }

    fn open_folder(&self, path: &str) -> io::Result<OwnedFd> {
        // Not a duplicate: it would share the place up to which entries have been read.
        let (folder, _) = self.folder_of(&below(path, "any"), false)?;
        Ok(openat(folder, ".", OFlags::RDONLY | FOLDER, Mode::empty())?)
    }
}

impl ImageStore for Folder {
    fn read(&self, path: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.open_file(path)? else { return Ok(None) };
        let length = file.metadata()?.len();
        if length > most {
            return Err(named(
                path,
                &io::Error::other(format!("it has {length} bytes, more than the limit of {most}")),
            ));
        }
        let mut bytes = Vec::with_capacity(length as usize);
        waiting_for_file(|| file.take(length).read_to_end(&mut bytes)).map_err(|why| named(path, &why))?;
        Ok(Some(bytes))
    }

    fn open(&self, path: &str) -> io::Result<Option<File>> {
        self.open_file(path)
    }

    fn each_key(
        &self,
        skips: &dyn Fn(&str) -> bool,
        take: &mut dyn FnMut(&str) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            for (name, is_folder) in self.list(&folder)? {
                let path = below(&folder, &name);
                match is_folder {
                    _ if skips(&path) => {}
                    true => folders.push(path),
                    false => take(&path)?,
                }
            }
        }
        Ok(())
    }

    fn write(&self, path: &str, value: &[u8]) -> io::Result<()> {
        self.create(path)?.write_all(value)
    }

    fn write_file(&self, path: &str, mut value: File) -> io::Result<u64> {
        io::copy(&mut value, &mut self.create(path)?)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.remove_file(path)
    }
}

/// Returns the store that an image lies in, or is written to.
///
/// # Errors
/// When the process has no more descriptors.
pub(super) fn store_of(medium: MediumRef<'_>) -> io::Result<Arc<dyn ImageStore>> {
    match medium {
        MediumRef::File(folder) => Ok(Arc::new(Folder::of(folder)?)),
        MediumRef::Image(store) => Ok(Arc::clone(store)),
    }
}

/// Returns the folder that an image lies in; `None` if it is in another store.
///
/// # Errors
/// As of [`store_of`].
pub(super) fn folder_of(medium: MediumRef<'_>) -> io::Result<Option<Folder>> {
    match medium {
        MediumRef::File(folder) => Folder::of(folder).map(Some),
        MediumRef::Image(_) => Ok(None),
    }
}

/// Copies all values to another store, except those that `skips` is true for. Returns their bytes.
///
/// # Errors
/// When one cannot be copied.
pub(super) fn copy_all(
    from: &dyn ImageStore,
    to: &dyn ImageStore,
    skips: &dyn Fn(&str) -> bool,
) -> io::Result<u64> {
    let mut bytes = 0;
    from.each_key(skips, &mut |key| {
        let value = from.open(key)?.ok_or_else(|| named(key, &ErrorKind::NotFound.into()))?;
        bytes += to.write_file(key, value)?;
        Ok(())
    })?;
    Ok(bytes)
}

/// Returns the type of an entry, which some file systems do not list.
fn file_type(folder: &OwnedFd, name: &str, stated: FileType) -> io::Result<FileType> {
    if stated != FileType::Unknown {
        return Ok(stated);
    }
    let there = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(there.st_mode))
}

/// Returns the path of a name in a folder.
pub(super) fn below(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// Returns an error that names the file.
fn named(path: &str, why: &io::Error) -> io::Error {
    let link = Errno::LOOP.raw_os_error();
    match why.raw_os_error() {
        Some(number) if number == link => {
            io::Error::other(format!("{path} is a link, and links are not followed here"))
        }
        _ => io::Error::new(why.kind(), format!("{path}: {why}")),
    }
}

/// A store of the values of arrays, for zarrs.
#[derive(Debug)]
pub(super) struct Store {
    values: Arc<dyn ImageStore>,
    /// The most bytes that a value may have.
    most: u64,
    /// The number of bytes that have been written.
    written: AtomicU64,
}

impl Store {
    pub(super) fn new(values: &Arc<dyn ImageStore>, most: u64) -> Self {
        Self { values: Arc::clone(values), most, written: AtomicU64::new(0) }
    }

    /// Returns the number of bytes that have been written.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

impl ReadableStorageTraits for Store {
    fn get(&self, key: &StoreKey) -> Result<MaybeBytes, StorageError> {
        Ok(self.values.read(key.as_str(), self.most)?.map(Bytes::from))
    }

    fn get_partial_many<'a>(
        &'a self,
        key: &StoreKey,
        byte_ranges: ByteRangeIterator<'a>,
    ) -> Result<MaybeBytesIterator<'a>, StorageError> {
        let Some(value) = self.get(key)? else { return Ok(None) };
        let ranges = extract_byte_ranges(&value, byte_ranges)?;
        Ok(Some(Box::new(ranges.into_iter().map(|range| Ok(range.into())))))
    }

    fn size_key(&self, key: &StoreKey) -> Result<Option<u64>, StorageError> {
        Ok(self.get(key)?.map(|value| value.len() as u64))
    }

    // Chunks are read as a whole.
    fn supports_get_partial(&self) -> bool {
        false
    }
}

impl WritableStorageTraits for Store {
    fn set(&self, key: &StoreKey, value: Bytes) -> Result<(), StorageError> {
        self.values.write(key.as_str(), &value)?;
        self.written.fetch_add(value.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn set_partial_many(&self, _: &StoreKey, _: OffsetBytesIterator<'_>) -> Result<(), StorageError> {
        Err(StorageError::Unsupported("chunks are written as a whole".to_owned()))
    }

    fn erase(&self, key: &StoreKey) -> Result<(), StorageError> {
        Ok(self.values.remove(key.as_str())?)
    }

    fn erase_prefix(&self, _: &StorePrefix) -> Result<(), StorageError> {
        Err(StorageError::Unsupported("nothing but chunks is removed".to_owned()))
    }

    fn supports_set_partial(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_behind_a_link_is_read_or_copied() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("in/a")).unwrap();
        fs::create_dir_all(at("out")).unwrap();
        fs::write(at("secret"), "secret").unwrap();
        fs::write(at("in/a/file"), "content").unwrap();
        let [from, to] = ["in", "out"].map(|name| Folder::of(&File::open(at(name)).unwrap()).unwrap());
        assert_eq!(copy_all(&from, &to, &|path| path == "a/none").unwrap(), 7);
        assert_eq!(fs::read(at("out/a/file")).unwrap(), b"content");
        assert_eq!(from.read("a/none", 9).unwrap(), None);
        assert_eq!(from.read("none/file", 9).unwrap(), None);
        assert!(from.read("a/file", 6).unwrap_err().to_string().starts_with("a/file: it has 7 bytes"));
        symlink("../../secret", at("in/a/link")).unwrap();
        symlink("..", at("in/up")).unwrap();
        assert!(from.read("a/link", 9).unwrap_err().to_string().contains("is a link"));
        assert!(from.read("up/secret", 9).is_err());
        let why = copy_all(&from, &to, &|_| false).unwrap_err().to_string();
        assert!(why.contains("is a link or a special file"), "{why}");
    }
}
