//! Metrics for Prometheus.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry, Unit};

use crate::device::machine::Machine;
use crate::ledger::ServiceReport;
use crate::service::reports::activity::DonePicture;
use crate::slot::device_state::{DeviceState, DeviceUse};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Picture {
    result: &'static str,
    device: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Device {
    device: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Waiting {
    phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InStage {
    stage: &'static str,
}

/// Returns a histogram with buckets from 0.1 ms to 13 s, each twice as large as the one before.
fn stage_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 2.0, 18))
}

/// All metrics. The loop writes them and the HTTP server reads them; the machine's are updated at
/// every read.
pub(crate) struct Metrics {
    registry: Registry,
    machine: Arc<Machine>,
    pictures: Family<Picture, Counter>,
    bytes_in: Family<Device, Counter>,
    bytes_out: Family<Device, Counter>,
    pixels: Family<Device, Counter>,
    part_pixels: Counter,
    seconds: Histogram,
    stages: Family<InStage, Histogram, fn() -> Histogram>,
    files: Family<Waiting, Gauge>,
    up: Family<Device, Gauge>,
    idle: Family<Device, Gauge>,
    failures: Family<Device, Counter>,
    busy: Family<Device, Counter<f64, AtomicU64>>,
    slots: Family<Device, Gauge>,
    slots_taken: Family<Device, Gauge>,
    memory: Gauge,
    memory_taken: Gauge,
    held: Gauge,
    paused: Gauge,
    missing: Gauge,
    last_success: Gauge<f64, AtomicU64>,
}

/// Registers a metric, and returns it.
fn registered<M: Metric + Clone>(to: &mut Registry, name: &str, help: &str, metric: M) -> M {
    to.register(name, help, metric.clone());
    metric
}

/// Registers a metric with a unit, and returns it.
fn measured<M: Metric + Clone>(to: &mut Registry, name: &str, help: &str, unit: Unit, metric: M) -> M {
    to.register_with_unit(name, help, unit, metric.clone());
    metric
}

impl Metrics {
    /// Creates all metrics, at zero.
    pub(crate) fn new(machine: Arc<Machine>) -> Self {
        let mut registry = Registry::with_prefix("histeqd");
        let to = &mut registry;
        let in_pipeline = "Time of a picture in the pipeline, from its job to its output";
        let in_parts = "Pixels of finished pages and bands of pictures in progress";
        let up_to_16_s = Histogram::new(exponential_buckets(0.001, 2.0, 16));
        let by_stage: Family<_, _, fn() -> Histogram> = Family::new_with_constructor(stage_seconds);
        let held = "Whether new pictures are held back because outputs cannot be written";
        let busy = "Time during which a GPU had at least one picture";
        let limit = "Memory limit for pictures, --memory";
        let last = "When the last picture was done, since 1970";
        let metrics = Self {
            machine,
            pictures: registered(to, "pictures", "Pictures by result and device", Family::default()),
            bytes_in: registered(
                to,
                "input_bytes",
                "Bytes of the inputs of pictures done",
                Family::default(),
            ),
            bytes_out: registered(
                to,
                "output_bytes",
                "Bytes of the outputs of pictures done",
                Family::default(),
            ),
            pixels: registered(to, "pixels", "Pixels of pictures done", Family::default()),
            part_pixels: registered(to, "part_pixels", in_parts, Counter::default()),
            seconds: measured(to, "picture", in_pipeline, Unit::Seconds, up_to_16_s),
            stages: measured(to, "stage", "Time of a picture in one stage", Unit::Seconds, by_stage),
            files: registered(
                to,
                "files",
                "Files not yet finished or moved away, by phase",
                Family::default(),
            ),
            held: registered(to, "held", held, Gauge::default()),
            paused: registered(to, "paused", "Whether the service is paused", Gauge::default()),
            missing: registered(to, "inboxes_missing", "Watched folders that are missing", Gauge::default()),
            last_success: measured(to, "last_success_timestamp", last, Unit::Seconds, Gauge::default()),
            up: registered(to, "device_up", "Whether a device works now", Family::default()),
            idle: registered(
                to,
                "device_idle",
                "Whether a device is released until there is work",
                Family::default(),
            ),
            failures: registered(
                to,
                "device_failures",
                "Failures of a device, which is then retried",
                Family::default(),
            ),
            busy: measured(to, "device_busy", busy, Unit::Seconds, Family::default()),
            slots: registered(to, "slots", "Maximum number of pictures on a device", Family::default()),
            slots_taken: registered(to, "slots_in_use", "Pictures on a device", Family::default()),
            memory_taken: measured(
                to,
                "picture_memory",
                "Memory in use by pictures",
                Unit::Bytes,
                Gauge::default(),
            ),
            memory: measured(to, "picture_memory_limit", limit, Unit::Bytes, Gauge::default()),
            registry,
        };
        metrics.begin_at_zero();
        metrics
    }

    /// Shows counters before they first count: Prometheus sees no increase in a counter that begins
    /// with 1.
    fn begin_at_zero(&self) {
        for result in ["failed", "skipped", "retried"] {
            self.pictures.get_or_create(&Picture { result, device: String::new() }).inc_by(0);
        }
    }

    /// Counts a picture that was done.
    pub(crate) fn done(&self, picture: &DonePicture) {
        let label = Device { device: picture.device.clone() };
        self.pictures.get_or_create(&Picture { result: "done", device: picture.device.clone() }).inc();
        self.bytes_in.get_or_create(&label).inc_by(picture.bytes_in);
        self.bytes_out.get_or_create(&label).inc_by(picture.bytes_out);
        self.pixels.get_or_create(&label).inc_by(picture.pixels);
        self.seconds.observe(picture.seconds);
        for (stage, time) in picture.times.each() {
            self.stages.get_or_create(&InStage { stage: stage.name() }).observe(time.as_secs_f64());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.last_success.set(now.as_secs_f64());
    }

    /// Counts the pixels of a complete part of a picture in progress.
    pub(crate) fn part(&self, pixels: u64) {
        self.part_pixels.inc_by(pixels);
    }

    /// Counts a picture that failed for good.
    pub(crate) fn failed(&self) {
        self.without_device("failed");
    }

    /// Counts a file that is not a picture.
    pub(crate) fn skipped(&self) {
        self.without_device("skipped");
    }

    /// Counts a picture that failed and will be tried again.
    pub(crate) fn retried(&self) {
        self.without_device("retried");
    }

    fn without_device(&self, result: &'static str) {
        self.pictures.get_or_create(&Picture { result, device: String::new() }).inc();
    }

    /// Sets the gauges to the service's current state.
    pub(crate) fn gauge(&self, service: &ServiceReport) {
        let phases = [
            ("incomplete", service.incomplete),
            ("waiting", service.waiting),
            ("running", service.running),
            ("pausing", service.pausing),
            ("leaving", service.leaving),
        ];
        for (phase, count) in phases {
            self.files.get_or_create(&Waiting { phase }).set(count as i64);
        }
        self.held.set(i64::from(service.held.is_some()));
        self.paused.set(i64::from(service.paused));
        self.missing.set(service.missing.len() as i64);
    }

    /// Returns the machine that the gauges are read from.
    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the states of the machine's devices.
    pub(crate) fn devices(&self) -> Vec<DeviceState> {
        self.machine.devices.states()
    }

    fn ask_machine(&self) {
        for (device, slots) in self.machine.devices() {
            let label = Device { device: device.name };
            self.up.get_or_create(&label).set(i64::from(device.up));
            self.idle.get_or_create(&label).set(i64::from(device.idle));
            self.failures.get_or_create(&label).inner().store(device.failures, Ordering::Relaxed);
            if let Some(DeviceUse { busy, .. }) = device.in_use {
                self.busy
                    .get_or_create(&label)
                    .inner()
                    .store(busy.as_secs_f64().to_bits(), Ordering::Relaxed);
            }
            self.slots.get_or_create(&label).set(slots.all as i64);
            self.slots_taken.get_or_create(&label).set(slots.taken as i64);
        }
        let (taken, limit) = self.machine.pool.memory();
        self.memory_taken.set(taken.cast_signed());
        self.memory.set(limit.cast_signed());
    }

    /// Returns all metrics in the OpenMetrics text format.
    pub(crate) fn text(self: &Arc<Self>) -> String {
        self.ask_machine();
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string does not fail");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::timings::{Stage, Times};
    use std::time::Duration;

    #[test]
    fn what_happened_can_be_read() {
        let metrics = Arc::new(Metrics::new(Arc::new(Machine::new(1 << 20, 1))));
        assert!(metrics.text().contains("histeqd_pictures_total{result=\"failed\",device=\"\"} 0"));
        let mut times = Times::default();
        times.add(Stage::Decode, Duration::from_millis(3));
        metrics.done(&DonePicture { device: "GPU 0".into(), times, ..DonePicture::for_tests(20) });
        metrics.failed();
        metrics.part(300);
        metrics.gauge(&ServiceReport {
            waiting: 7,
            held: Some("no room".into()),
            ..ServiceReport::default()
        });
        let text = metrics.text();
        for line in [
            "histeqd_pictures_total{result=\"done\",device=\"GPU 0\"} 1",
            "histeqd_pictures_total{result=\"failed\",device=\"\"} 1",
            "histeqd_output_bytes_total{device=\"GPU 0\"} 20",
            "histeqd_picture_seconds_count 1",
            "histeqd_part_pixels_total 300",
            "histeqd_files{phase=\"waiting\"} 7",
            "histeqd_held 1",
            "histeqd_stage_seconds_sum{stage=\"decode\"} 0.003",
            "histeqd_stage_seconds_count{stage=\"publish\"} 1",
            "histeqd_picture_memory_limit_bytes 1048576",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} is not in\n{text}");
        }
    }
}
