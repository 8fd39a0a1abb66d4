//! Which keys have no effect, and what they need for one.

use super::{After, FormatName, MethodName, OrNone, Written};

/// The kind of run that flags are meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunKind {
    /// A batch run without a ledger.
    Batch,
    /// A batch run that goes by the ledger.
    Resume,
    /// A service.
    Watch,
}

/// What a key needs for an effect.
#[derive(Clone, Copy)]
struct Need {
    is_met: bool,
    what: &'static str,
    /// Whether the settings of folders may say it.
    is_of_folders: bool,
}

/// Returns what only the command line and the configuration file say.
const fn of_run(is_met: bool, what: &'static str) -> Need {
    Need { is_met, what, is_of_folders: false }
}

/// Returns what folders may say too.
const fn of_folders(is_met: bool, what: &'static str) -> Need {
    Need { is_met, what, is_of_folders: true }
}

impl Written {
    /// Checks that every flag that was typed, in `self`, has an effect, given all keys that are `used` and the kind of run. With `folders`, which
    /// may have settings of their own, what these may say is left to them.
    ///
    /// # Errors
    /// A sentence that names a flag without an effect, and what it needs.
    pub fn check_effects(&self, used: &Self, run: RunKind, folders: bool) -> Result<(), String> {
        let idle = self.idle(used, run).into_iter().find(|(_, need)| !(folders && need.is_of_folders));
        idle.map_or(Ok(()), |(flag, need)| Err(idle_flag(flag, need.what)))
    }

    /// Returns the flags in `self` that have no effect with the keys that are `used` and that folders may give one, each with a sentence about it.
    pub(crate) fn left_to_folders(&self, used: &Self) -> Vec<(&'static str, String)> {
        let idle = self.idle(used, RunKind::Watch).into_iter().filter(|(_, need)| need.is_of_folders);
        idle.map(|(flag, need)| (flag, idle_flag(flag, need.what))).collect()
    }

    /// Returns a sentence for every key of a `file`, `self`, that has no effect, given all keys that are `used`. Keys with
    /// their default values are passed over, and so are those for other kinds of runs: one file serves them all.
    pub fn without_effect(&self, used: &Self, file: &str) -> Vec<String> {
        let changed = self.differing(&Self::default());
        let idle = self.idle(used, RunKind::Watch).into_iter();
        idle.filter(|(key, _)| changed.iter().any(|changed| changed == key))
            .map(|(key, need)| format!("{key} of {file} has no effect without {}", need.what))
            .collect()
    }

    /// Returns the written keys that have no effect, each with what it needs.
    fn idle(&self, used: &Self, run: RunKind) -> Vec<(&'static str, Need)> {
        let writes = |format| used.format.is_none_or(|used| used == FormatName::Keep || used == format);
        let stretch = of_folders(used.method == Some(MethodName::Stretch), "--method stretch");
        let matching = of_folders(used.method == Some(MethodName::Match), "--method match");
        let clahe = of_folders(used.method == Some(MethodName::Clahe), "--method clahe");
        let has_mask = used.mask.as_ref().is_some_and(|mask| *mask != OrNone::None);
        let masked = of_run(has_mask, "--mask");
        let jpeg = of_folders(writes(FormatName::Jpeg), "--format keep or jpeg");
        let png = of_folders(writes(FormatName::Png), "--format keep or png");
        let watching = of_run(run == RunKind::Watch, "--watch");
        let listens = matches!(used.listen, Some(OrNone::Some(_)));
        let listening = of_run(run == RunKind::Watch && listens, "--watch and --listen");
        let notifies = matches!(used.notify, Some(OrNone::Some(_)));
        let notifying = of_run(run == RunKind::Watch && notifies, "--watch and --notify");
        let ledger = of_run(run != RunKind::Batch, "--watch or --resume");
        let inputs_go = used.after.as_ref().is_some_and(|after| *after != After::Keep);
        let going = of_run(run == RunKind::Watch && inputs_go, "--watch and --after delete or move:DIR");
        let rules = [
            ("clip-low", self.clip_low.is_some(), stretch),
            ("clip-high", self.clip_high.is_some(), stretch),
            ("reference", self.reference.is_some(), matching),
            ("clip-limit", self.clip_limit.is_some(), clahe),
            ("tiles", self.tiles.is_some(), clahe),
            ("tile-size", self.tile_size.is_some(), clahe),
            ("mask-keep", self.mask_keep == Some(true), masked),
            ("quality", self.quality.is_some(), jpeg),
            ("png-level", self.png_level.is_some(), png),
            ("gpu-idle", self.gpu_idle.is_some(), watching),
            ("settle", self.settle.is_some(), watching),
            ("rescan", self.rescan.is_some(), watching),
            ("poll", self.poll.is_some(), watching),
            ("after", self.after.is_some(), watching),
            ("on-collision", self.on_collision.is_some(), going),
            ("failed", self.failed.is_some(), watching),
            ("listen", self.listen.is_some(), watching),
            ("listen-name", self.listen_name.is_some(), listening),
            ("token-file", self.token_file.is_some(), listening),
            ("notify", self.notify.is_some(), watching),
            ("notify-quiet", self.notify_quiet.is_some(), notifying),
            ("state", self.state.is_some(), ledger),
        ];
        let idle = rules.into_iter().filter(|(_, is_written, need)| *is_written && !need.is_met);
        idle.map(|(key, _, need)| (key, need)).collect()
    }
}

fn idle_flag(flag: &str, needs: &str) -> String {
    format!("--{flag} has no effect without {needs}")
}
