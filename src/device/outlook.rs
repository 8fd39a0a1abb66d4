//! The outlook of a run: how long the rest will last, and which workers start therefore.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Context;
use super::cpu::CpuDevice;
use super::machine::Machine;
use crate::progress::timings::Meter;
use crate::slot::rates::Decoders;
use crate::slot::schedule::starts::{
    Jpegs, Workers, engines_pay_at_all, lanes_pay_at_all, lanes_take_much, time_at_rate, time_on_cores,
};

/// The interval of checks whether more workers pay.
const INTERVAL: Duration = Duration::from_millis(20);

/// The time without a finished picture or an estimate after which the rest counts as long.
const NOTHING_DONE: Duration = Duration::from_millis(250);

/// The time from which the lanes' share of all processor time counts.
///
/// Before, most pictures are still being decoded.
const COMPARED: Duration = Duration::from_millis(100);

/// The warm-up of a worker that has just started.
///
/// It pins its slots first, and its decoders take time to reach their full rate.
const WARM_UP: Duration = Duration::from_millis(1500);

/// The time for measuring a rate once it is steady.
const MEASURED: Duration = Duration::from_millis(500);

/// The longest wait for workers that are starting, before more are considered.
const LATE: Duration = Duration::from_secs(5);

/// The known facts about the rest of a run.
pub(super) struct Outlook<'a> {
    context: Context<'a>,
    cpu: Arc<CpuDevice>,
    meter: Meter,
}

impl<'a> Outlook<'a> {
    /// Starts the measurement.
    pub(super) fn new(context: Context<'a>, cpu: Arc<CpuDevice>) -> Self {
        Self { context, cpu, meter: Meter::start() }
    }

    fn left(&self) -> usize {
        self.context.machine.rates.left_of(self.context.workload.pictures)
    }

    fn on_cores(&self, each: Duration) -> Duration {
        time_on_cores(each, self.left(), self.context.settings.threads)
    }

    /// Returns how long the rest takes at least without workers.
    ///
    /// The estimates for pictures that a GPU could decode count only if GPUs have these decoders.
    fn without_workers(&self, decoders: Decoders) -> Duration {
        let rates = &self.context.machine.rates;
        let foreseen = rates.foreseen(decoders);
        if rates.pictures() == 0 && foreseen.is_zero() {
            let (seconds, _) = self.meter.read();
            return if seconds > NOTHING_DONE.as_secs_f64() { Duration::MAX } else { Duration::ZERO };
        }
        self.on_cores(foreseen.max(rates.average()))
    }

    /// Returns whether a GPU with these decoders pays, as long as only the CPU works.
    fn pays(&self, decoders: Decoders) -> bool {
        let Context { settings, machine: Machine { pool, rates, .. }, .. } = self.context;
        let rest = self.without_workers(decoders);
        if decoders.jpegs && pool.has_compressed() && engines_pay_at_all(settings.threads, rest) {
            return true;
        }
        let (seconds, processor) = self.meter.read();
        let foreseen = rates.foreseen(Decoders { jpegs: false, ..decoders });
        let is_known_to_pay = lanes_pay_at_all(self.on_cores(foreseen));
        let is_seen_to_pay = seconds >= COMPARED.as_secs_f64() && lanes_take_much(self.cpu.time(), processor);
        is_known_to_pay || is_seen_to_pay && lanes_pay_at_all(rest)
    }

    /// Returns the workers on this many GPUs that pay, before any works.
    pub(super) fn first(&self, gpus: usize) -> Workers {
        self.more(Workers::default(), Workers::default(), gpus, self.without_workers(Decoders::ALL))
    }

    fn more(&self, wanted: Workers, settled: Workers, gpus: usize, rest: Duration) -> Workers {
        let machine = machine(&self.context, gpus);
        let more = wanted.with_more(settled, machine, rest);
        // The number of workers for JPEGs is decided once there are JPEGs.
        if self.context.machine.pool.has_compressed() {
            more
        } else {
            Workers { engines: wanted.engines, ..more }
        }
    }

    /// Waits until a GPU with these decoders pays; returns `false` if the work ends before.
    pub(super) fn wait_until_it_pays(&self, decoders: Decoders) -> bool {
        while !self.pays(decoders) {
            if self.context.machine.devices.finder.cancelled_within(INTERVAL) {
                return false;
            }
        }
        true
    }

    /// Requests more workers as they pay, until the work ends.
    pub(super) fn follow(&self, gpus: usize) {
        let Machine { pool, devices, rates, .. } = self.context.machine;
        let mut rate = Rate::new(Workers::default());
        while !devices.finder.cancelled_within(INTERVAL) {
            let (wanted, settled) = (pool.wanted(), pool.settled());
            if rate.settled != settled {
                rate = Rate::new(settled);
            }
            let is_late = rate.since.elapsed() > LATE;
            let rest = match settled == Workers::default() {
                true => Some(self.without_workers(Decoders::ALL)),
                false => rate.rest(rates.pictures(), self.left()),
            };
            let settled = if is_late { wanted } else { settled };
            rest.into_iter().for_each(|rest| pool.want(self.more(wanted, settled, gpus, rest)));
        }
    }
}

/// Returns the machine of a run with this many GPUs.
pub(super) fn machine(context: &Context<'_>, gpus: usize) -> Jpegs {
    Jpegs { gpus, cores: context.settings.threads }
}

/// The rate of finished pictures while the same workers work.
struct Rate {
    settled: Workers,
    since: Instant,
    /// The end of the warm-up, and the number of pictures that were finished by then.
    steady: Option<(Instant, usize)>,
}

impl Rate {
    fn new(settled: Workers) -> Self {
        Self { settled, since: Instant::now(), steady: None }
    }

    /// Returns how long the `left` pictures last; `None` until that is known.
    fn rest(&mut self, done: usize, left: usize) -> Option<Duration> {
        if self.since.elapsed() < WARM_UP {
            return None;
        }
        let &mut (begun, before) = self.steady.get_or_insert_with(|| (Instant::now(), done));
        let took = begun.elapsed();
        (took >= MEASURED).then(|| time_at_rate(left, done - before, took))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_measured_once_it_is_steady() {
        let ago = |milliseconds| Instant::now() - Duration::from_millis(milliseconds);
        let mut rate = Rate { since: ago(1400), ..Rate::new(Workers::default()) };
        assert_eq!((rate.rest(20, 50), rate.steady), (None, None));
        rate.since = ago(1600);
        assert_eq!((rate.rest(20, 50), rate.steady.unwrap().1), (None, 20));
        rate.steady = Some((ago(1000), 20));
        let rest = rate.rest(30, 50).unwrap().as_secs_f64();
        assert!((5.0..5.5).contains(&rest), "{rest}");
        assert_eq!(rate.rest(20, 50), Some(Duration::MAX));
    }
}
