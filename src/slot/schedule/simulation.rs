//! A simulated machine, to test the schedule with more GPUs and cores than the machines of tests
//! have.
//!
//! Cores are shared by all threads that compute; a GPU's lanes and its JPEG engines each do one
//! picture after the other, at the rate of all of them together. Decoders take slots in turn, as
//! they do from the pool. The throughput is compared with the best that any schedule could reach,
//! which knows all costs and takes fractions of pictures.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use codec::Format;
use equalize::{Depth, Layout, Pixel};

use super::{Attempts, Device, Patience, Request, Schedule, Standing, slots_for_jpegs, starts};
use crate::slot::rates::{Class, Rates, Way};

/// The costs of a picture, in seconds.
#[derive(Clone, Copy)]
struct Costs {
    format: Format,
    depth: Depth,
    /// Of a core, if the CPU does it all: to decode, equalize and encode it.
    cpu: [f64; 3],
    /// Of a core, if a worker equalizes it: to decode and to encode it.
    handed: [f64; 2],
    /// Of a GPU's lanes.
    lanes: f64,
    /// Of a GPU's JPEG engines, and of a core to read and to write the file; if they can do it.
    engines: Option<(f64, [f64; 2])>,
}

/// Pictures of 11.5 megapixels, measured on one H200 (JPEG) or one H100 and slow cores (others).
const JPEG: Costs = Costs {
    format: Format::Jpeg,
    depth: Depth::Eight,
    cpu: [0.040, 0.010, 0.052],
    handed: [0.042, 0.054],
    lanes: 0.0012,
    engines: Some((0.0005, [0.0026, 0.0020])),
};
const PGM: Costs = Costs {
    format: Format::Pnm,
    depth: Depth::Eight,
    cpu: [0.003, 0.003, 0.006],
    handed: [0.0045, 0.0085],
    lanes: 0.0005,
    engines: None,
};
const CLAHE_8: Costs = Costs { cpu: [0.003, 0.024, 0.006], handed: [0.0045, 0.0085], lanes: 0.0008, ..PGM };
const CLAHE_16: Costs =
    Costs { depth: Depth::Sixteen, cpu: [0.030, 0.100, 0.037], handed: [0.033, 0.038], lanes: 0.0015, ..PGM };

impl Costs {
    fn class(&self) -> Class {
        Class::new(self.format, &self.layout())
    }

    fn layout(&self) -> Layout {
        Layout { width: 4160, height: 2768, pixel: Pixel::Gray, depth: self.depth }
    }

    fn saved(&self) -> f64 {
        self.cpu.iter().sum::<f64>() - self.handed.iter().sum::<f64>()
    }
}

/// Returns the pictures per second of the best schedule, with a mix of equal parts of these kinds.
fn bound(gpus: usize, cores: usize, mix: &[Costs]) -> f64 {
    let is_feasible = |rate: f64| {
        let each = rate / mix.len() as f64;
        let (mut core_time, mut rest) = (0.0, Vec::new());
        for costs in mix {
            let decoded = costs.engines.map_or(0.0, |(time, _)| (gpus as f64 / time).min(each));
            core_time += decoded * costs.engines.map_or(0.0, |(_, cores)| cores.iter().sum());
            core_time += (each - decoded) * costs.cpu.iter().sum::<f64>();
            rest.push((costs, each - decoded));
        }
        rest.sort_by(|(a, _), (b, _)| (b.saved() / b.lanes).total_cmp(&(a.saved() / a.lanes)));
        let mut lane_time = gpus as f64;
        for (costs, pictures) in rest.into_iter().filter(|(costs, _)| costs.saved() > 0.0) {
            let taken = pictures.min(lane_time / costs.lanes);
            lane_time -= taken * costs.lanes;
            core_time -= taken * costs.saved();
        }
        core_time <= cores as f64
    };
    let (mut low, mut high) = (0.0, 1e9);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if is_feasible(middle) { low = middle } else { high = middle }
    }
    low
}

/// The place where a picture is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Cpu,
    Lanes(usize),
    Engines(usize),
}

/// A step of a picture on the cores.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Decode,
    Equalize,
    Encode,
}

#[derive(Clone, Copy)]
struct Work {
    costs: Costs,
    place: Place,
    step: Step,
    /// Whether it fills a fresh slot.
    fills: bool,
}

/// A moment, ordered.
#[derive(Clone, Copy, PartialEq)]
struct Moment(f64);

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// A queue of events that keeps those of one moment in order.
#[derive(Default)]
struct Events(BinaryHeap<Reverse<(Moment, usize)>>, Vec<Work>);

impl Events {
    fn add(&mut self, at: f64, work: Work) {
        self.0.push(Reverse((Moment(at), self.1.len())));
        self.1.push(work);
    }

    fn first(&self) -> Option<f64> {
        self.0.peek().map(|Reverse((at, _))| at.0)
    }

    fn pop(&mut self) -> Work {
        self.1[self.0.pop().expect("there is one").0.1]
    }
}

/// A device that does one picture after the other.
#[derive(Default)]
struct Server {
    free_at: f64,
    has: usize,
    slots_taken: usize,
    /// Slots for compressed pictures that have been filled once, or are being filled, and the
    /// number being filled.
    used: usize,
    filling: usize,
}

/// Of a core, to take the pages of a fresh slot.
const FILL: f64 = 0.1;

const LANES: usize = 4;

struct Machine {
    cores: usize,
    now: f64,
    /// The time that each thread on the cores has computed since the start: all have the same
    /// speed.
    done_each: f64,
    computing: Events,
    on_devices: Events,
    lanes: Vec<Server>,
    engines: Vec<Server>,
    cpu_slots_taken: usize,
    equalizing: VecDeque<Work>,
    encoding: VecDeque<Work>,
    /// Threads that are busy, of `cores` for each step.
    busy: [usize; 3],
    rates: Rates,
    /// The number of the next picture.
    next: usize,
    /// Its worth, which is requested once for a picture, however long that waits.
    worth_of_next: Option<f64>,
}

impl Machine {
    /// Returns a machine with slots for compressed pictures that have been used before, or are all
    /// fresh.
    fn new(gpus: usize, cores: usize, is_fresh: bool) -> Self {
        let used = if is_fresh { 0 } else { slots_for_jpegs(cores) };
        let servers = || (0..gpus).map(|_| Server { used, ..Server::default() }).collect();
        Self {
            cores,
            now: 0.0,
            done_each: 0.0,
            computing: Events::default(),
            on_devices: Events::default(),
            lanes: servers(),
            engines: servers(),
            cpu_slots_taken: 0,
            equalizing: VecDeque::new(),
            encoding: VecDeque::new(),
            busy: [0; 3],
            rates: Rates::default(),
            next: 0,
            worth_of_next: None,
        }
    }

    /// Returns the pictures per second that the schedule reaches with this many pictures of a mix,
    /// from the first fifth to the last.
    fn run(mut self, mix: &[Costs], pictures: usize) -> f64 {
        let (mut finished, mut begun) = (0, 0.0);
        while finished < pictures {
            if self.turn(mix, pictures).is_some() {
                finished += 1;
                if finished == pictures / 5 {
                    begun = self.now;
                } else if finished == pictures - pictures / 5 {
                    return (pictures - 2 * (pictures / 5)) as f64 / (self.now - begun);
                }
            }
        }
        unreachable!("four fifths come before all")
    }

    /// Returns the number of pictures of a mix that the cores do alone in the first seconds.
    fn by_cores_within(mut self, seconds: f64, mix: &[Costs]) -> usize {
        let mut count = 0;
        while self.now < seconds {
            count += usize::from(self.turn(mix, usize::MAX) == Some(Place::Cpu));
        }
        count
    }

    /// Begins all pictures and steps that it can, and lets time pass until the next step ends. If
    /// that was the last of a picture, returns its place.
    fn turn(&mut self, mix: &[Costs], pictures: usize) -> Option<Place> {
        while self.next < pictures && self.busy[0] < self.cores {
            let costs = mix[self.next % mix.len()];
            let rates = &self.rates;
            let worth = *self.worth_of_next.get_or_insert_with(|| rates.worth(costs.class()));
            let Some(place) = self.place(&costs, worth) else { break };
            let fills = self.is_fresh(place);
            self.compute(Work { costs, place, step: Step::Decode, fills });
            (self.next, self.worth_of_next) = (self.next + 1, None);
        }
        for (step, waiting) in [(1, 0), (2, 1)] {
            while self.busy[step] < self.cores {
                let queue = if waiting == 0 { &mut self.equalizing } else { &mut self.encoding };
                let Some(work) = queue.pop_front() else { break };
                self.compute(work);
            }
        }
        self.advance()
    }

    /// Asks the schedule where the next picture goes; `None` if it has to wait.
    fn place(&mut self, costs: &Costs, worth: f64) -> Option<Place> {
        let gpus = self.lanes.len();
        let slots = 2 * LANES + (2 * self.cores).div_ceil(gpus) + 1;
        let base = Device {
            is_worker: false,
            standing: Standing::Up,
            takes_pixels: true,
            decodes: false,
            decodes_codestreams: false,
            free_codestream: 0,
            free_streams: 0,
            free_compressed: 0,
            fresh_compressed: 0,
            filling: 0,
            slots,
            lent: 0,
        };
        let lanes = self.lanes.iter().map(|lanes| Device { is_worker: true, lent: lanes.has, ..base });
        let engines = self.engines.iter().map(|engines| Device {
            is_worker: true,
            takes_pixels: false,
            decodes: true,
            free_compressed: engines.used - engines.slots_taken,
            fresh_compressed: slots_for_jpegs(self.cores) - engines.used,
            filling: engines.filling,
            ..base
        });
        let schedule = Schedule {
            devices: [base].into_iter().chain(lanes).chain(engines).collect(),
            wait_for_workers: false,
        };
        let attempts = Attempts::default();
        let request = Request { attempts: &attempts, worth };
        let admitted = match costs.engines {
            Some(_) => {
                let least = starts::least_time_of_jpeg(&costs.layout());
                let waits = self.rates.cores_add_little(costs.class(), &costs.layout(), least, self.cores);
                let patience = if waits { Patience::WhileUp } else { Patience::Little };
                let chosen = schedule.choose(request, patience);
                if let Some(id) = chosen.compressed {
                    self.engines[id - 1 - gpus].slots_taken += 1;
                    return Some(Place::Engines(id - 1 - gpus));
                }
                chosen.pixels?
            }
            None => schedule.admitted_now(request),
        };
        let free = (0..gpus).find(|&gpu| admitted[1 + gpu] && self.lanes[gpu].slots_taken < slots);
        if let Some(gpu) = free {
            self.lanes[gpu].slots_taken += 1;
            return Some(Place::Lanes(gpu));
        }
        (admitted[0] && self.cpu_slots_taken < 2 * self.cores).then(|| {
            self.cpu_slots_taken += 1;
            Place::Cpu
        })
    }

    /// Returns whether the slot that a picture was given is a fresh one.
    fn is_fresh(&mut self, place: Place) -> bool {
        let Place::Engines(gpu) = place else { return false };
        let engines = &mut self.engines[gpu];
        let is_fresh = engines.slots_taken > engines.used;
        engines.used = engines.used.max(engines.slots_taken);
        engines.filling += usize::from(is_fresh);
        is_fresh
    }

    fn compute(&mut self, work: Work) {
        let at = work.step as usize;
        let fill = if work.fills && work.step == Step::Decode { FILL } else { 0.0 };
        let time = fill
            + match work.place {
                Place::Cpu => work.costs.cpu[at],
                Place::Lanes(_) => work.costs.handed[at / 2],
                Place::Engines(_) => work.costs.engines.expect("it is there").1[at / 2],
            };
        self.busy[at] += 1;
        self.computing.add(self.done_each + time, work);
    }

    /// Lets time pass until the next step ends. If that was the last of a picture, returns its
    /// place.
    fn advance(&mut self) -> Option<Place> {
        let threads = self.computing.0.len();
        let speed = (self.cores as f64 / threads.max(1) as f64).min(1.0);
        let on_cores = self.computing.first().map(|at| self.now + (at - self.done_each) / speed);
        let on_devices = self.on_devices.first();
        let is_on_cores = on_cores.is_some_and(|at| on_devices.is_none_or(|other| at <= other));
        let until = if is_on_cores { on_cores } else { on_devices }.expect("something is under way");
        self.done_each += (until - self.now) * speed;
        self.now = until;
        if is_on_cores {
            let work = self.computing.pop();
            self.busy[work.step as usize] -= 1;
            self.pass_on(work)
        } else {
            let work = self.on_devices.pop();
            match work.place {
                Place::Lanes(gpu) => self.lanes[gpu].has -= 1,
                Place::Engines(gpu) => self.engines[gpu].has -= 1,
                Place::Cpu => unreachable!("it is no server"),
            }
            self.encoding.push_back(Work { step: Step::Encode, ..work });
            None
        }
    }

    fn pass_on(&mut self, work: Work) -> Option<Place> {
        match (work.step, work.place) {
            (Step::Decode, Place::Cpu) => self.equalizing.push_back(Work { step: Step::Equalize, ..work }),
            (Step::Decode, Place::Lanes(gpu)) => {
                serve(&mut self.lanes[gpu], &mut self.on_devices, self.now, work);
            }
            (Step::Decode, Place::Engines(gpu)) => {
                self.engines[gpu].filling -= usize::from(work.fills);
                serve(&mut self.engines[gpu], &mut self.on_devices, self.now, work);
            }
            (Step::Equalize, _) => self.encoding.push_back(Work { step: Step::Encode, ..work }),
            (Step::Encode, place) => {
                let (way, time) = match place {
                    Place::Cpu => {
                        self.cpu_slots_taken -= 1;
                        (Some(Way::Cpu), work.costs.cpu.iter().sum())
                    }
                    Place::Lanes(gpu) => {
                        self.lanes[gpu].slots_taken -= 1;
                        (Some(Way::Worker), work.costs.handed.iter().sum())
                    }
                    Place::Engines(gpu) => {
                        self.engines[gpu].slots_taken -= 1;
                        (None, 0.0)
                    }
                };
                let bytes = 11_500_000 * work.costs.depth.bytes() as u64;
                if let Place::Engines(_) = place {
                    self.rates.add_decoded_at(Duration::from_secs_f64(self.now), bytes);
                }
                self.rates.add(work.costs.class(), way, bytes, Duration::from_secs_f64(time));
                return Some(place);
            }
        }
        None
    }
}

fn serve(server: &mut Server, events: &mut Events, now: f64, work: Work) {
    let time = match work.place {
        Place::Engines(_) => work.costs.engines.expect("it is there").0,
        _ => work.costs.lanes,
    };
    server.free_at = server.free_at.max(now) + time;
    server.has += 1;
    events.add(server.free_at, work);
}

#[test]
fn every_machine_comes_near_to_what_it_could_do_at_best() {
    let mixes: [(&str, &[Costs]); 8] = [
        ("JPEG", &[JPEG]),
        ("PGM", &[PGM]),
        ("CLAHE", &[CLAHE_8]),
        ("16-bit CLAHE", &[CLAHE_16]),
        ("JPEG and PGM", &[JPEG, PGM]),
        ("JPEG and 16-bit CLAHE", &[JPEG, CLAHE_16]),
        ("CLAHE of both depths", &[CLAHE_8, CLAHE_16]),
        ("all", &[JPEG, PGM, CLAHE_8, CLAHE_16]),
    ];
    let mut shares = Vec::new();
    for gpus in [1, 2, 4, 16] {
        for cores in [1, 4, 16, 32, 64, 256] {
            for (name, mix) in mixes {
                let pictures = 3_000 + 80 * cores + 500 * gpus;
                let share = Machine::new(gpus, cores, false).run(mix, pictures) / bound(gpus, cores, mix);
                shares.push((share, format!("{share:.3} of the bound: {name}, {gpus} GPUs, {cores} cores")));
            }
        }
    }
    shares.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let told: Vec<&str> = shares.iter().take(8).map(|(_, told)| &**told).collect();
    let far = shares.iter().filter(|(share, _)| *share < 0.95).count();
    assert!(far <= 2 && shares[0].0 >= 0.91, "{far} of {} are farther than 5 %: {told:#?}", shares.len());
}

#[test]
fn cores_go_on_while_the_fresh_slots_of_gpus_are_filled() {
    // Few cores leave JPEGs to the GPU even then.
    assert_eq!(Machine::new(1, 16, true).by_cores_within(0.5, &[JPEG]), 0);
    for (gpus, cores) in [(2, 32), (4, 64)] {
        // If they did no other work, filling all slots would take them a second.
        let alone = 0.5 * cores as f64 / JPEG.cpu.iter().sum::<f64>();
        let done = Machine::new(gpus, cores, true).by_cores_within(0.5, &[JPEG]);
        assert!(done as f64 >= 0.3 * alone, "{gpus} GPUs, {cores} cores: {done} pictures, not {alone:.0}");
    }
}
