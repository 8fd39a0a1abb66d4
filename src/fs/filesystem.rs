//! The reliable properties of a folder, depending on its file system.

use std::fs::File;
use std::io;
use std::path::Path;

/// The properties of a file system that matter for watching a folder on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Whether other machines can change files unnoticed by this machine's kernel.
    pub shared: bool,
    /// Whether a file keeps its inode number when the file system is unmounted and mounted again.
    pub lasting_inodes: bool,
    /// The call that finds a file's holes without delay.
    pub holes: Finding,
}

/// A call that finds a file's holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// lseek(2).
    Seek,
    /// The same, if the file has fewer blocks than its length needs.
    SparseSeek,
    /// No call.
    None,
}

/// The statfs(2) magic numbers of file systems on which changes by other machines go unnoticed.
const SHARED: &[u32] = &[
    0x6969,      // NFS
    0x517B,      // SMB
    0xFF53_4D42, // CIFS
    0xFE53_4D42, // SMB2
    0x6573_5546, // FUSE: sshfs, s3fs and others
    0x0102_1997, // 9P
    0x00C3_6400, // Ceph
    0x5346_414F, // AFS
    0x0BD0_0BD0, // Lustre
    0x4750_4653, // GPFS
    0x7375_7245, // Coda
    0x7461_636F, // OCFS2
    0x0116_1970, // GFS2
    0x1983_0326, // BeeGFS
];

/// The statfs(2) magic numbers of file systems that make up inode numbers at every mount.
const MAKES_UP_INODES: &[u32] = &[
    0x4D44,      // FAT
    0x2011_BAB0, // exFAT
    0x517B,      // SMB
    0xFF53_4D42, // CIFS
    0xFE53_4D42, // SMB2
    0x6573_5546, // FUSE
    0x0102_1997, // 9P
];

/// The statfs(2) magic number of ZFS, where lseek(2) first syncs recent writes to the disk
/// (`zfs_dmu_offset_next_sync`).
const ZFS: u32 = 0x2FC1_2FC1;
/// The statfs(2) magic number of tmpfs, where lseek(2) visits every page of a file without holes.
const TMPFS: u32 = 0x0102_1994;

impl FileSystem {
    /// Returns the properties of the file system that `path` is on.
    ///
    /// # Errors
    /// When statfs(2) fails.
    pub fn of(path: &Path) -> io::Result<Self> {
        rustix::fs::statfs(path).map(|found| Self::of_stat(&found)).map_err(io::Error::from)
    }

    /// Returns the properties of the file system that an open file is on.
    ///
    /// # Errors
    /// When fstatfs(2) fails.
    pub fn of_file(file: &File) -> io::Result<Self> {
        rustix::fs::fstatfs(file).map(|found| Self::of_stat(&found)).map_err(io::Error::from)
    }

    fn of_stat(found: &rustix::fs::StatFs) -> Self {
        // Magic numbers have 32 bits; whether they are sign-extended to 64 depends on the
        // architecture.
        Self::from_magic((found.f_type & 0xFFFF_FFFF) as u32)
    }

    fn from_magic(magic: u32) -> Self {
        Self {
            shared: SHARED.contains(&magic),
            lasting_inodes: !MAKES_UP_INODES.contains(&magic),
            holes: match magic {
                ZFS => Finding::None,
                TMPFS => Finding::SparseSeek,
                _ => Finding::Seek,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_their_numbers() {
        let (ext4, nfs, fat, cifs) = (0xEF53, 0x6969, 0x4D44, 0xFF53_4D42);
        let kind = |shared, lasting_inodes| FileSystem { shared, lasting_inodes, holes: Finding::Seek };
        assert_eq!(FileSystem::from_magic(ext4), kind(false, true));
        assert_eq!(FileSystem::from_magic(nfs), kind(true, true));
        assert_eq!(FileSystem::from_magic(fat), kind(false, false));
        assert_eq!(FileSystem::from_magic(cifs), kind(true, false));
        assert_eq!(FileSystem::from_magic(ZFS), FileSystem { holes: Finding::None, ..kind(false, true) });
    }

    #[test]
    fn a_folder_here_can_be_asked() {
        assert!(FileSystem::of(Path::new("/proc")).is_ok_and(|proc| !proc.shared));
        assert!(FileSystem::of(Path::new("/nowhere/at/all")).is_err());
    }
}
