//! The CUDA kernels of histeqd, in modules, so that a driver loads only those that a run needs.
//!
//! `build.sh` makes them from the sources in this folder. Each module is there as PTX, which every
//! driver from 384 on compiles for its GPUs, from compute capability 3.7 on, which takes it up to a
//! second. For most GPUs there is also a cubin, which is the compiled form.
//!
//! ```
//! use histeqd_kernels::GLOBAL8;
//!
//! assert!(GLOBAL8.ptx().contains(".target sm_37"));
//! let cubin = GLOBAL8.cubin((8, 9)).ok_or("it is not compiled for this GPU")?;
//! assert!(cubin.starts_with(b"\x7fELF"));
//! # Ok::<_, &str>(())
//! ```

use std::io::Read;

use flate2::read::GzDecoder;

/// Makes a module from its files.
///
/// A cubin runs on all GPUs of its architecture's generation (the first number) that are not older.
/// This is the list of the architectures; `build.sh` knows which compiler each one takes.
macro_rules! module {
    ($name:literal) => {
        module!($name: (7, 0) "sm_70", (8, 0) "sm_80", (9, 0) "sm_90", (10, 0) "sm_100", (11, 0) "sm_110", (12, 0) "sm_120")
    };
    ($name:literal: $($capability:tt $architecture:literal),*) => {
        Module {
            name: $name,
            ptx: include_bytes!(concat!("prebuilt/", $name, ".ptx.gz")),
            cubins: &[$(Cubin {
                capability: $capability,
                gzipped: include_bytes!(concat!("prebuilt/", $architecture, "/", $name, ".cubin.gz")),
            }),*],
        }
    };
}

/// Global equalization and counting of 8-bit pictures.
pub const GLOBAL8: Module = module!("global8");
/// Counting and global equalization of 16-bit pictures, and the steps on counts for 8-bit pictures.
pub const GLOBAL16: Module = module!("global16");
/// Planes of interleaved pixels, taken out and put back.
pub const PLANES: Module = module!("planes");
/// A new brightness of colours that keep their hue, or of those in L\*a\*b\*.
pub const COLOURS: Module = module!("colours");
/// CLAHE of 8-bit planes.
pub const CLAHE8: Module = module!("clahe8");
/// CLAHE of 16-bit planes.
pub const CLAHE16: Module = module!("clahe16");
/// The decoder of a JPEG's entropy-coded data.
pub const JPEG_DECODE: Module = module!("jpeg_decode");
/// The transforms of JPEGs, from coefficients to samples and back.
pub const JPEG_TRANSFORM: Module = module!("jpeg_transform");
/// The coder of JPEGs' coefficients.
pub const JPEG_ENCODE: Module = module!("jpeg_encode");
/// A kernel that traps, to test what a failing GPU costs.
pub const TRAP: Module = module!("trap":);
/// Published ways of equalization, which the ladder compares with those above.
pub const LADDER: Module = module!("ladder":);

/// A module of kernels.
#[derive(Clone, Copy, Debug)]
pub struct Module {
    /// Its unique name.
    pub name: &'static str,
    /// The PTX, in gzip.
    ptx: &'static [u8],
    cubins: &'static [Cubin],
}

/// A module compiled for one architecture.
#[derive(Debug)]
struct Cubin {
    capability: (u32, u32),
    gzipped: &'static [u8],
}

impl Module {
    /// Returns the PTX. Unpacking takes a few milliseconds.
    #[must_use]
    pub fn ptx(&self) -> String {
        String::from_utf8(unpack(self.ptx)).expect("PTX is text")
    }

    /// Returns the code for GPUs of this compute capability (major and minor), if there is any.
    #[must_use]
    pub fn cubin(&self, capability: (u32, u32)) -> Option<Vec<u8>> {
        self.choose(capability).map(|cubin| unpack(cubin.gzipped))
    }

    fn choose(&self, (major, minor): (u32, u32)) -> Option<&Cubin> {
        let runs = |cubin: &&Cubin| cubin.capability.0 == major && cubin.capability.1 <= minor;
        self.cubins.iter().filter(runs).max_by_key(|cubin| cubin.capability)
    }
}

/// Returns the content of a file of `prebuilt`.
fn unpack(gzipped: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    GzDecoder::new(gzipped).read_to_end(&mut unpacked).expect("the file is as gzip wrote it");
    unpacked
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fs;

    use super::*;

    const COMPILED: [(&str, Module); 9] = [
        ("global8", GLOBAL8),
        ("global16", GLOBAL16),
        ("planes", PLANES),
        ("colours", COLOURS),
        ("clahe8", CLAHE8),
        ("clahe16", CLAHE16),
        ("jpeg_decode", JPEG_DECODE),
        ("jpeg_encode", JPEG_ENCODE),
        ("jpeg_transform", JPEG_TRANSFORM),
    ];

    /// Returns the number of the architecture in a cubin's header, 90 for sm_90.
    fn architecture(cubin: &[u8]) -> u8 {
        let (abi_version, flags) = (cubin[8], &cubin[48..52]);
        if abi_version < 8 { flags[0] } else { flags[1] }
    }

    #[test]
    fn a_gpu_gets_the_newest_cubin_of_its_generation() {
        let chosen = |capability| GLOBAL8.choose(capability).map(|cubin| cubin.capability);
        for (gpu, architecture) in [
            ((7, 0), (7, 0)),
            ((7, 5), (7, 0)),
            ((8, 9), (8, 0)),
            ((9, 0), (9, 0)),
            ((10, 3), (10, 0)),
            ((11, 0), (11, 0)),
            ((12, 1), (12, 0)),
        ] {
            assert_eq!(chosen(gpu), Some(architecture), "{gpu:?}");
        }
        for gpu in [(3, 7), (6, 1), (13, 0)] {
            assert_eq!(chosen(gpu), None, "{gpu:?}");
        }
    }

    #[test]
    fn every_cubin_is_of_its_architecture_and_has_the_kernels_of_its_module() {
        for (name, module) in COMPILED {
            let ptx = module.ptx();
            let kernels = ptx.split(".entry ").skip(1).map(|rest| rest.split('(').next().unwrap());
            for &Cubin { capability: (major, minor), .. } in module.cubins {
                let what = format!("{name} of sm_{major}{minor}");
                let cubin = module.cubin((major, minor)).unwrap();
                assert_eq!(cubin[..4], *b"\x7fELF", "{what}");
                assert_eq!(u32::from(architecture(&cubin)), 10 * major + minor, "{what}");
                for kernel in kernels.clone() {
                    let section = [b".text.", kernel.as_bytes(), b"\0"].concat();
                    assert!(cubin.windows(section.len()).any(|bytes| bytes == section), "{kernel} in {what}");
                }
            }
        }
    }

    #[test]
    fn all_that_was_built_is_here() {
        let architecture = |Cubin { capability: (major, minor), .. }: &_| format!("sm_{major}{minor}");
        let known: HashSet<String> = GLOBAL8.cubins.iter().map(architecture).collect();
        let prebuilt = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/prebuilt")).unwrap();
        let folders = prebuilt.map(Result::unwrap).filter(|entry| entry.path().is_dir());
        let built: HashSet<String> = folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
        assert_eq!(known, built);
    }
}
