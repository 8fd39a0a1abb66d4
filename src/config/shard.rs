//! `--shard`: one of several parts of the pictures, chosen without communication between the
//! machines that process the others.

use std::env;
use std::fmt;
use std::hash::Hasher;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::str::FromStr;

use siphasher::sip::SipHasher13;

/// The environment variable for the number of pods of an indexed job, which Kubernetes itself does
/// not pass to them.
const COMPLETIONS: &str = "JOB_COMPLETIONS";

/// The part of the pictures that a run handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Its number, from 1.
    number: u32,
    /// The number of parts.
    of: u32,
}

/// The value of `--shard`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardChoice {
    /// The part that a batch scheduler sets in the environment.
    Auto,
    /// This part.
    Fixed(Shard),
}

impl Shard {
    /// Returns the part with this number, from 1.
    fn new(number: u32, of: u32) -> Result<Self, String> {
        if number == 0 || number > of {
            return Err(format!("the parts are numbered 1/{of} to {of}/{of}"));
        }
        Ok(Self { number, of })
    }

    /// Returns whether a file at this path below its input folder belongs to the part.
    ///
    /// The answer is the same in every version and on every machine, wherever the input folder is.
    pub fn takes(self, below: &Path) -> bool {
        let mut hasher = SipHasher13::new();
        hasher.write(below.as_os_str().as_bytes());
        hasher.finish() % u64::from(self.of) == u64::from(self.number - 1)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for ShardChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("auto") {
            return Ok(Self::Auto);
        }
        let numbers = text.split_once('/').and_then(|(one, of)| Some((one.parse().ok()?, of.parse().ok()?)));
        let (number, of) =
            numbers.filter(|(_, of)| *of > 0).ok_or("expected NUMBER/PARTS, such as 1/4, or auto")?;
        Shard::new(number, of).map(Self::Fixed)
    }
}

impl ShardChoice {
    /// Returns the chosen part.
    ///
    /// # Errors
    /// A sentence for the user, if the environment does not define it.
    pub fn resolve(self) -> Result<Shard, String> {
        match self {
            Self::Fixed(shard) => Ok(shard),
            Self::Auto => of_environment(|name| env::var(name).ok()),
        }
    }
}

/// Returns the part from the environment of Slurm's job arrays, or of indexed jobs of Kubernetes.
fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Shard, String> {
    let number = |name: &str| {
        let value = variable(name).ok_or_else(|| format!("--shard auto: {name} is not set"))?;
        value.trim().parse::<u32>().map_err(|_| format!("--shard auto: {name} is {value:?}, not a number"))
    };
    if variable("SLURM_ARRAY_TASK_ID").is_some() {
        let [id, count, least] =
            ["SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN"].map(number);
        let (id, count, least) = (id?, count?, least?);
        let step = if count > 1 && variable("SLURM_ARRAY_TASK_STEP").is_some() {
            number("SLURM_ARRAY_TASK_STEP")?.max(1)
        } else {
            1
        };
        let place = id.checked_sub(least).filter(|steps| steps % step == 0).map(|steps| steps / step);
        return place.and_then(|place| Shard::new(place.checked_add(1)?, count).ok()).ok_or_else(|| {
            format!(
                "--shard auto: the array's {count} tasks are not numbered from {least} in steps of {step} (one of them is {id}); give the part, as in --shard $((SLURM_ARRAY_TASK_ID + 1))/{count}"
            )
        });
    }
    if variable("JOB_COMPLETION_INDEX").is_some() {
        let (index, of) = (
            number("JOB_COMPLETION_INDEX")?,
            number(COMPLETIONS).map_err(|why| {
                format!("{why}; a pod does not know their number, so set it to the job's `completions`")
            })?,
        );
        let next = index.checked_add(1).unwrap_or(index);
        return Shard::new(next, of).map_err(|_| {
            format!("--shard auto: JOB_COMPLETION_INDEX is {index}, and {COMPLETIONS} only {of}; set it to the job's `completions`")
        });
    }
    Err(format!(
        "--shard auto finds neither SLURM_ARRAY_TASK_ID (a Slurm job array) nor JOB_COMPLETION_INDEX and {COMPLETIONS} (an indexed job of \
         Kubernetes) in the environment; give the part, as in --shard 1/4"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(text: &str) -> Shard {
        text.parse::<ShardChoice>().unwrap().resolve().unwrap()
    }

    #[test]
    fn parts_are_numbered_from_1() {
        assert_eq!(shard("1/4"), Shard { number: 1, of: 4 });
        assert_eq!("AUTO".parse(), Ok(ShardChoice::Auto));
        for text in ["0/4", "5/4", "1/0", "1", "/", "a/b", "-1/4", "1/4/2", "1/99999999999", ""] {
            assert!(text.parse::<ShardChoice>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_part_of_a_path_never_changes() {
        let part = |path: &str| (1..=4).find(|n| shard(&format!("{n}/4")).takes(Path::new(path)));
        assert_eq!(
            ["b.png", "a.png", "2024/a.png", "été/ß.tif"].map(part),
            [Some(2), Some(4), Some(1), Some(1)],
            "runs on other machines would do some pictures twice, and some not at all"
        );
    }

    #[test]
    fn every_path_is_in_one_part_and_the_parts_are_alike() {
        let parts: Vec<_> = (1..=8).map(|n| shard(&format!("{n}/8"))).collect();
        let mut sizes = [0; 8];
        for n in 0..8000 {
            let path = format!("folder/{n:05}.png");
            let takers: Vec<_> = (0..8).filter(|&part| parts[part].takes(Path::new(&path))).collect();
            assert_eq!(takers.len(), 1, "{path}");
            sizes[takers[0]] += 1;
        }
        assert!(sizes.iter().all(|size| (850..1150).contains(size)), "{sizes:?}");
    }

    #[test]
    fn schedulers_say_the_part_in_the_environment() {
        let stated = |text: &str| {
            let set = |name: &str| {
                text.split(' ').filter_map(|one| one.split_once('=')).find(|(key, _)| *key == name)
            };
            super::of_environment(|name| set(name).map(|(_, value)| value.to_owned()))
        };
        let slurm = |id, count, least, step| {
            stated(&format!(
                "SLURM_ARRAY_TASK_ID={id} SLURM_ARRAY_TASK_COUNT={count} SLURM_ARRAY_TASK_MIN={least} SLURM_ARRAY_TASK_STEP={step}"
            ))
        };
        assert_eq!(slurm(0, 10, 0, 1), Ok(Shard { number: 1, of: 10 }));
        assert_eq!(slurm(14, 10, 5, 1), Ok(Shard { number: 10, of: 10 }));
        assert_eq!(slurm(7, 4, 1, 2), Ok(Shard { number: 4, of: 4 }));
        assert_eq!(slurm(3, 1, 3, 1), Ok(Shard { number: 1, of: 1 }));
        for (id, count, least, step) in [(9, 3, 1, 1), (4, 4, 1, 2), (0, 4, 1, 1)] {
            let why = slurm(id, count, least, step).unwrap_err();
            assert!(why.contains("give the part, as in --shard $((SLURM_ARRAY_TASK_ID + 1))/"), "{why}");
        }
        let why = stated("SLURM_ARRAY_TASK_ID=1").unwrap_err();
        assert_eq!(why, "--shard auto: SLURM_ARRAY_TASK_COUNT is not set");
        let why =
            stated("SLURM_ARRAY_TASK_ID=x SLURM_ARRAY_TASK_COUNT=2 SLURM_ARRAY_TASK_MIN=0").unwrap_err();
        assert_eq!(why, "--shard auto: SLURM_ARRAY_TASK_ID is \"x\", not a number");
        assert_eq!(stated("JOB_COMPLETION_INDEX=0 JOB_COMPLETIONS=3"), Ok(Shard { number: 1, of: 3 }));
        assert_eq!(stated("JOB_COMPLETION_INDEX=2 JOB_COMPLETIONS=3"), Ok(Shard { number: 3, of: 3 }));
        for text in ["JOB_COMPLETION_INDEX=3 JOB_COMPLETIONS=3", "JOB_COMPLETION_INDEX=0"] {
            let why = stated(text).unwrap_err();
            assert!(why.ends_with("set it to the job's `completions`"), "{why}");
        }
        let why = stated("").unwrap_err();
        assert!(why.contains("give the part, as in --shard 1/4"), "{why}");
    }
}
