//! The choice of the GPUs that a run uses.

use crate::config::DeviceName;
use crate::error::Error;
use crate::progress::Events;
use crate::slot::rates::Decoders;
use lanes::{GpuInfo, Unit};

/// Returns the codings that the GPUs decode, which are the same for all of them.
pub(super) fn decoders(found: &[GpuInfo]) -> Decoders {
    let has = |library: fn(&GpuInfo) -> &Option<Result<String, String>>| {
        found.first().is_some_and(|gpu| matches!(library(gpu), Some(Ok(_))))
    };
    let (codestreams, streams) = (has(|gpu| &gpu.nvjpeg2000), has(|gpu| &gpu.nvcomp));
    Decoders { jpegs: !found.is_empty(), codestreams, streams }
}

/// Returns the usable GPUs, and notes why the others cannot be used.
pub(super) fn usable(found: &[GpuInfo], events: &Events) -> Vec<Unit> {
    let refused = found.iter().filter_map(|gpu| Some((gpu, gpu.refused.as_ref()?)));
    let note = |(gpu, reason): (&GpuInfo, &String)| format!("gpu{} is not used: {reason}", gpu.ordinal);
    refused.for_each(|refused| events.note(note(refused), false));
    found.iter().filter(|gpu| gpu.refused.is_none()).map(|gpu| Unit::Gpu(gpu.ordinal)).collect()
}

/// Returns the units if there is at least one.
pub(super) fn some(units: Vec<Unit>) -> Result<Vec<Unit>, Error> {
    if units.is_empty() {
        return Err(Error::CannotRun(
            "no GPU can be used, but --jpeg gpu needs one; see `histeqd devices`, or use --jpeg auto"
                .to_owned(),
        ));
    }
    Ok(units)
}

/// Returns the named GPUs, in the names' order; without names, all of them.
pub(super) fn choose(found: &[GpuInfo], names: Option<&[DeviceName]>) -> Result<Vec<Unit>, Error> {
    let all: Vec<&GpuInfo> = match names {
        None => found.iter().collect(),
        Some(names) => names.iter().map(|name| find(found, name)).collect::<Result<_, _>>()?,
    };
    all.iter()
        .map(|gpu| match &gpu.refused {
            None => Ok(Unit::Gpu(gpu.ordinal)),
            Some(reason) => {
                Err(Error::CannotRun(format!("gpu{} ({}) cannot be used: {reason}", gpu.ordinal, gpu.name)))
            }
        })
        .collect()
}

fn find<'a>(found: &'a [GpuInfo], name: &DeviceName) -> Result<&'a GpuInfo, Error> {
    let mut candidates = found.iter().filter(|gpu| match name {
        DeviceName::Index(index) => *index == gpu.ordinal,
        DeviceName::Uuid(prefix) => gpu.uuid.starts_with(prefix.as_str()),
    });
    let first = candidates.next().ok_or_else(|| {
        Error::CannotRun(format!("there is no GPU {name}; `histeqd devices` lists the available ones"))
    })?;
    match candidates.next() {
        None => Ok(first),
        Some(_) => Err(Error::CannotRun(format!("{name} matches more than one GPU; give more of the UUID"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu() -> GpuInfo {
        GpuInfo {
            ordinal: 0,
            name: "A GPU".to_owned(),
            uuid: "GPU-1".to_owned(),
            compute_capability: (7, 5),
            memory: 1 << 34,
            pcie: None,
            driver_cuda: 12040,
            driver: None,
            nvjpeg2000: None,
            nvcomp: None,
            refused: None,
        }
    }

    #[test]
    fn what_gpus_decode_is_what_libraries_there_are() {
        for found in [None, Some(Err("missing".to_owned())), Some(Ok("0.11".to_owned()))] {
            let is_there = found.as_ref().is_some_and(Result::is_ok);
            let with = |gpu| decoders(&[gpu]);
            let only_jpegs = Decoders { jpegs: true, codestreams: false, streams: false };
            let decodes = with(GpuInfo { nvjpeg2000: found.clone(), ..gpu() });
            assert_eq!(decodes, Decoders { codestreams: is_there, ..only_jpegs });
            let inflates = with(GpuInfo { nvcomp: found, ..gpu() });
            assert_eq!(inflates, Decoders { streams: is_there, ..only_jpegs });
        }
        assert_eq!(decoders(&[]), Decoders { jpegs: false, codestreams: false, streams: false });
    }
}
