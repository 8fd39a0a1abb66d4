//! The choice of the GPUs that a run uses.

use crate::config::{DeviceName, JpegChoice};
use crate::error::Error;
use crate::progress::Events;
use crate::slot::rates::Decoders;
use codec::JpegCoder;
use lanes::{GpuInfo, Unit};

/// Returns the version of nvJPEG or why it cannot be used, which is the same for all GPUs; `None` if that is unknown.
pub(super) fn nvjpeg(found: &[GpuInfo]) -> Option<&Result<String, String>> {
    found.first()?.nvjpeg.as_ref()
}

/// Returns what the GPUs decode, which is the same for all of them, if this coder decodes JPEGs.
pub(super) fn decoders(found: &[GpuInfo], coder: JpegCoder) -> Decoders {
    let has = |library: fn(&GpuInfo) -> &Option<Result<String, String>>| {
        found.first().is_some_and(|gpu| matches!(library(gpu), Some(Ok(_))))
    };
    let (codestreams, streams) = (has(|gpu| &gpu.nvjpeg2000), has(|gpu| &gpu.nvcomp));
    let jpegs = match coder {
        JpegCoder::Histeqd => !found.is_empty(),
        JpegCoder::NvJpeg => has(|gpu| &gpu.nvjpeg),
    };
    Decoders { jpegs, codestreams, streams }
}

/// Returns a note for the user if only the lack of nvJPEG keeps a GPU from processing JPEGs.
pub(super) fn without_nvjpeg(jpeg: JpegChoice, found: &[GpuInfo]) -> Option<String> {
    match nvjpeg(found) {
        Some(Err(reason)) if jpeg == JpegChoice::Auto && found.iter().any(|gpu| gpu.refused.is_none()) => {
            Some(format!("JPEGs are decoded and encoded on the CPU: {reason}"))
        }
        _ => None,
    }
}

/// Returns the GPUs that can be used, and notes why the others cannot.
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

/// Returns the GPUs that the names stand for, in the names' order; all of them if there are no names.
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

    fn gpu(nvjpeg: Result<&str, &str>, refused: Option<&str>) -> GpuInfo {
        GpuInfo {
            ordinal: 0,
            name: "A GPU".to_owned(),
            uuid: "GPU-1".to_owned(),
            compute_capability: (7, 5),
            memory: 1 << 34,
            pcie: None,
            driver_cuda: 12040,
            driver: None,
            nvjpeg: Some(nvjpeg.map(str::to_owned).map_err(str::to_owned)),
            nvjpeg2000: None,
            nvcomp: None,
            refused: refused.map(str::to_owned),
        }
    }

    #[test]
    fn what_gpus_decode_is_what_libraries_there_are() {
        for found in [None, Some(Err("missing".to_owned())), Some(Ok("0.11".to_owned()))] {
            let is_there = found.as_ref().is_some_and(Result::is_ok);
            let with = |gpu| decoders(&[gpu], JpegCoder::NvJpeg);
            let only_jpegs = Decoders { jpegs: true, codestreams: false, streams: false };
            let decodes = with(GpuInfo { nvjpeg2000: found.clone(), ..gpu(Ok("12.4"), None) });
            assert_eq!(decodes, Decoders { codestreams: is_there, ..only_jpegs });
            let inflates = with(GpuInfo { nvcomp: found, ..gpu(Ok("12.4"), None) });
            assert_eq!(inflates, Decoders { streams: is_there, ..only_jpegs });
        }
        let missing = [gpu(Err("missing"), None)];
        for coder in [JpegCoder::Histeqd, JpegCoder::NvJpeg] {
            assert_eq!(decoders(&missing, coder).jpegs, coder == JpegCoder::Histeqd);
            let nothing = Decoders { jpegs: false, codestreams: false, streams: false };
            assert_eq!(decoders(&[], coder), nothing);
        }
    }

    #[test]
    fn that_nvjpeg_is_missing_is_said_where_it_would_be_used() {
        let missing = [gpu(Err("libnvjpeg.so.12 is not there"), None)];
        let said = without_nvjpeg(JpegChoice::Auto, &missing).unwrap();
        assert_eq!(said, "JPEGs are decoded and encoded on the CPU: libnvjpeg.so.12 is not there");
        assert_eq!(without_nvjpeg(JpegChoice::Cpu, &missing), None);
        assert_eq!(without_nvjpeg(JpegChoice::Auto, &[gpu(Ok("12.4"), None)]), None);
        assert_eq!(without_nvjpeg(JpegChoice::Auto, &[gpu(Err("missing"), Some("too old"))]), None);
        assert_eq!(without_nvjpeg(JpegChoice::Auto, &[]), None);
    }
}
