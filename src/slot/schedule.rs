//! The choice of a device for each picture: a pure function of the devices' activity, and of the
//! measured costs of pictures.
//!
//! A picture can go three ways: the CPU does it all; the CPU decodes it, and a worker equalizes it;
//! or a worker does it all. Every picture needs cores, and it goes the way that takes the least of
//! them, as long as the worker on that way does not have enough work already:
//!
//! - A JPEG stays compressed for a GPU that decodes while that has a free slot for it, because
//!   there are just enough of those to keep its decoders busy. It waits for one if the cores were
//!   measured to add little to the GPUs.
//! - Otherwise the CPU decodes. A worker gets the pixels unless it has more than its lanes can
//!   begin, or the trip there and back was measured to take more processor time than it saves. The
//!   CPU keeps all others: no core waits for a device.

pub mod starts;

/// The index of a device in the order in which devices join a run.
pub type DeviceId = usize;

/// The number of fresh slots of a device to fill at a time. When a device that decodes is ready,
/// all its slots are fresh, and their pages have to be taken from the system; if all cores did that
/// at once, they would only wait for each other meanwhile.
pub const FILLED_AT_ONCE: usize = 4;

/// Returns the number of slots for JPEGs of a device beside this many cores, which read and write
/// their files.
///
/// Each is pinned at its first use, which keeps the driver from all else for 5 ms: with 150 beside
/// 16 cores, that was most of the first second. Beside more cores, a device with few would wait for
/// these, by the simulation.
pub const fn slots_for_jpegs(cores: usize) -> usize {
    if cores <= 16 { 60 } else { 144 }
}

/// Whether a device works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Works: its slots are handed out.
    Up,
    /// Starting or restarting: may work later.
    Down,
    /// May never work again: no picture waits for it.
    Retired,
}

/// The state of a device when a picture looks for one.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    /// Whether it is a worker process, not the CPU.
    pub is_worker: bool,
    /// Whether it works.
    pub standing: Standing,
    /// Whether it has slots for pixels at all.
    pub takes_pixels: bool,
    /// Whether it has slots for compressed pictures at all.
    pub decodes: bool,
    /// Whether it has slots for codestreams at all.
    pub decodes_codestreams: bool,
    /// The number of free slots for codestreams.
    pub free_codestream: usize,
    /// The number of free slots for streams.
    pub free_streams: usize,
    /// The number of free slots for compressed pictures that have memory.
    pub free_compressed: usize,
    /// The number of free ones without memory yet.
    pub fresh_compressed: usize,
    /// The number of fresh ones that are being filled.
    pub filling: usize,
    /// The number of its slots for pixels.
    pub slots: usize,
    /// The number of pictures that it has and has not finished.
    pub lent: usize,
}

impl Device {
    /// Returns whether pixels may go to it instead of the CPU.
    fn is_worker_for_pixels(&self) -> bool {
        self.is_worker && self.takes_pixels
    }

    /// Returns the number of compressed pictures that it may be given now.
    fn room_compressed(&self) -> usize {
        self.free_compressed + self.fresh_compressed.min(FILLED_AT_ONCE.saturating_sub(self.filling))
    }

    fn is_up(&self) -> bool {
        self.standing == Standing::Up
    }

    fn may_come(&self) -> bool {
        self.standing != Standing::Retired
    }

    /// Returns whether another picture of this worth would only wait there: half of its slots hold
    /// unfinished pictures. Decoders that end together make that many wait for a moment, but they
    /// do not last until the next if the device is the faster one. Pictures of less worth leave
    /// room sooner for those of more.
    fn has_enough(&self, worth: f64) -> bool {
        2.0 * self.lent as f64 >= self.slots as f64 * worth
    }
}

/// The results of the attempts at a picture so far, which decide the devices that may take it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// Devices on which it failed, or that declined it.
    pub failed_on: Vec<DeviceId>,
    /// Whether a device refused to decode it, which leaves that to the CPU.
    pub declined: bool,
}

impl Attempts {
    /// Returns whether a worker's device may take the picture: after two failures only the CPU may.
    fn admit(&self, device: DeviceId) -> bool {
        self.failed_on.len() < 2 && !self.failed_on.contains(&device)
    }

    fn admit_decoding(&self, device: DeviceId) -> bool {
        !self.declined && self.admit(device)
    }
}

/// A picture that looks for a device.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The results of the attempts at it so far.
    pub attempts: &'a Attempts,
    /// The processor time that a worker saves with it, per byte, as a share of the most that it
    /// saves with any pictures of this run: 0 if it saves none, 1 if that is unknown.
    pub worth: f64,
}

impl<'a> From<&'a Attempts> for Request<'a> {
    fn from(attempts: &'a Attempts) -> Self {
        Self { attempts, worth: 1.0 }
    }
}

/// How far a JPEG waits for a device that decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// It goes to the CPU if no device has room for it.
    Little,
    /// It waits while such a device works.
    WhileUp,
    /// It waits while such a device exists or may come: the user insists on it.
    WhileAnyMayCome,
}

/// The devices for a JPEG that a device could decode or encode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destinations {
    /// The device that decodes it, if one has a slot for it.
    pub compressed: Option<DeviceId>,
    /// The devices for its pixels otherwise, by device; `None` if it waits for a device that
    /// decodes.
    pub pixels: Option<Vec<bool>>,
}

/// The activity of the devices.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// All devices, in the order in which they joined.
    pub devices: Vec<Device>,
    /// Whether the CPU leaves the first attempt at every picture to workers while one is up or may
    /// still come up.
    pub wait_for_workers: bool,
}

impl Schedule {
    /// Returns the devices for a JPEG now.
    pub fn choose(&self, request: Request<'_>, patience: Patience) -> Destinations {
        let attempts = request.attempts;
        let waits = match patience {
            Patience::Little => false,
            Patience::WhileUp => self.may_decode(attempts, Device::is_up),
            Patience::WhileAnyMayCome => self.may_decode(attempts, Device::may_come),
        };
        let pixels = if waits {
            None
        } else if self.may_decode(attempts, Device::may_come) && !self.workers_may_come() {
            Some(self.cpu_alone())
        } else {
            Some(self.admitted_now(request))
        };
        Destinations { compressed: self.decoder(attempts), pixels }
    }

    /// Returns, by device, whether pixels may go there now. A worker may have enough to do because
    /// it is slow, or because it has just begun: it pins its slots one after the other.
    pub fn admitted_now(&self, request: Request<'_>) -> Vec<bool> {
        let mut admitted = self.admitted(request.attempts);
        if self.wait_for_workers {
            return admitted;
        }
        for (is_admitted, device) in admitted.iter_mut().zip(&self.devices) {
            *is_admitted &= !device.is_worker || !device.has_enough(request.worth);
        }
        if admitted.contains(&true) { admitted } else { self.cpu_alone() }
    }

    /// Returns, by device, whether pixels may go there after these attempts.
    pub fn admitted(&self, attempts: &Attempts) -> Vec<bool> {
        let is_usable = |(id, device): (DeviceId, &Device)| {
            device.is_worker_for_pixels() && device.is_up() && attempts.admit(id)
        };
        let workers: Vec<bool> = self.devices.iter().enumerate().map(is_usable).collect();
        let is_cpu_free =
            !workers.contains(&true) && (!attempts.failed_on.is_empty() || !self.workers_may_come());
        let devices = self.devices.iter().zip(workers);
        devices.map(|(device, is_usable)| is_usable || !device.is_worker && is_cpu_free).collect()
    }

    /// Returns, by device, whether it is the CPU. When it decodes and encodes pictures while a
    /// device does so too, it also equalizes them: the trip over the bus and back was measured to
    /// take longer, and kept both from better work.
    pub fn cpu_alone(&self) -> Vec<bool> {
        self.devices.iter().map(|device| !device.is_worker).collect()
    }

    /// Returns whether a device that the run waits for, and that `attempts` admit, is not up yet.
    pub fn may_still_come(&self, attempts: &Attempts) -> bool {
        self.wait_for_workers
            && self.devices.iter().enumerate().any(|(id, device)| {
                device.is_worker_for_pixels() && device.standing == Standing::Down && attempts.admit(id)
            })
    }

    /// Returns whether the CPU has to wait for a worker that is not up yet.
    fn workers_may_come(&self) -> bool {
        self.may_still_come(&Attempts::default())
    }

    /// Returns the device with the most room for compressed pictures, of those that decode now.
    fn decoder(&self, attempts: &Attempts) -> Option<DeviceId> {
        let ready = self.devices.iter().enumerate().filter(|(id, device)| {
            device.room_compressed() > 0 && device.is_up() && attempts.admit_decoding(*id)
        });
        ready.max_by_key(|(_, device)| device.room_compressed()).map(|(id, _)| id)
    }

    /// Returns the device that decodes a codestream now: of all that can, the one with the most
    /// slots for it. A core takes a hundred times as long: it only decodes a codestream that no
    /// device has room for.
    pub fn codestream_decoder(&self, attempts: &Attempts) -> Option<DeviceId> {
        self.with_most(attempts, |device| device.free_codestream)
    }

    /// As [`Schedule::codestream_decoder`], for streams to inflate or deflate.
    pub fn stream_coder(&self, attempts: &Attempts) -> Option<DeviceId> {
        self.with_most(attempts, |device| device.free_streams)
    }

    /// Returns the device with the most free slots of a kind, if one has any now.
    fn with_most(&self, attempts: &Attempts, free: impl Fn(&Device) -> usize) -> Option<DeviceId> {
        let devices = self.devices.iter().enumerate();
        let ready = devices
            .filter(|(id, device)| free(device) > 0 && device.is_up() && attempts.admit(*id))
            .map(|(id, device)| (id, free(device)));
        ready.max_by_key(|(_, free)| *free).map(|(id, _)| id)
    }

    /// Returns whether a device that `attempts` admit decodes codestreams, or may come to do so.
    pub fn may_decode_codestreams(&self, attempts: &Attempts) -> bool {
        self.devices
            .iter()
            .enumerate()
            .any(|(id, device)| device.decodes_codestreams && device.may_come() && attempts.admit(id))
    }

    /// Returns whether a device that `attempts` admit decodes and is as required.
    fn may_decode(&self, attempts: &Attempts, is_as_required: impl Fn(&Device) -> bool) -> bool {
        self.devices
            .iter()
            .enumerate()
            .any(|(id, device)| device.decodes && is_as_required(device) && attempts.admit_decoding(id))
    }
}

#[cfg(test)]
mod simulation;

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: Device = Device {
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
        slots: 16,
        lent: 0,
    };
    const PIXELS: Device = Device { is_worker: true, ..CPU };
    const JPEGS: Device = Device { takes_pixels: false, decodes: true, free_compressed: 3, ..PIXELS };

    fn schedule(devices: &[Device]) -> Schedule {
        Schedule { devices: devices.to_vec(), wait_for_workers: false }
    }

    fn failed_on(devices: &[DeviceId]) -> Attempts {
        Attempts { failed_on: devices.to_vec(), declined: false }
    }

    #[test]
    fn pixels_go_to_workers_that_are_up_and_to_the_cpu_where_there_are_none() {
        let down = Device { standing: Standing::Down, ..PIXELS };
        let any = Attempts::default();
        assert_eq!(schedule(&[CPU, PIXELS, PIXELS]).admitted_now((&any).into()), [false, true, true]);
        assert_eq!(schedule(&[CPU, down]).admitted_now((&any).into()), [true, false]);
        let awaited = Schedule { wait_for_workers: true, ..schedule(&[CPU, down]) };
        assert_eq!(awaited.admitted_now((&any).into()), [false, false]);
        assert_eq!(awaited.admitted_now((&failed_on(&[1])).into()), [true, false]);
        let retired = Device { standing: Standing::Retired, ..PIXELS };
        let given_up = Schedule { wait_for_workers: true, ..schedule(&[CPU, retired]) };
        assert_eq!(given_up.admitted_now((&any).into()), [true, false]);
    }

    #[test]
    fn after_two_failures_only_the_cpu_is_left() {
        let three = schedule(&[CPU, PIXELS, PIXELS, PIXELS]);
        assert_eq!(three.admitted(&failed_on(&[2])), [false, true, false, true]);
        assert_eq!(three.admitted(&failed_on(&[2, 3])), [true, false, false, false]);
    }

    #[test]
    fn a_jpeg_goes_to_the_decoder_with_the_most_room() {
        let busy = Device { free_compressed: 1, ..JPEGS };
        let full = Device { free_compressed: 0, ..JPEGS };
        let choose = |devices: &[Device], attempts: &Attempts| {
            schedule(devices).choose(attempts.into(), Patience::Little)
        };
        assert_eq!(choose(&[CPU, busy, JPEGS, full], &Attempts::default()).compressed, Some(2));
        assert_eq!(choose(&[CPU, busy, JPEGS, full], &failed_on(&[2])).compressed, Some(1));
        let declined = Attempts { declined: true, ..Attempts::default() };
        assert_eq!(choose(&[CPU, busy, JPEGS, full], &declined).compressed, None);
    }

    #[test]
    fn a_codestream_goes_to_the_device_with_the_most_room_for_it() {
        let with = |free_codestream| Device { decodes_codestreams: true, free_codestream, ..PIXELS };
        let down = Device { standing: Standing::Down, ..with(9) };
        let chosen = |attempts: &Attempts| {
            schedule(&[CPU, JPEGS, with(0), with(2), with(5), down]).codestream_decoder(attempts)
        };
        assert_eq!(chosen(&Attempts::default()), Some(4));
        assert_eq!([&[4][..], &[2, 4]].map(|on| chosen(&failed_on(on))), [Some(3), None]);
        let may = |device| schedule(&[CPU, JPEGS, device]).may_decode_codestreams(&Attempts::default());
        let retired = Device { standing: Standing::Retired, ..with(9) };
        assert_eq!([with(0), down, retired, PIXELS].map(may), [true, true, false, false]);
    }

    #[test]
    fn streams_go_to_the_device_with_the_most_room_for_them_that_is_there() {
        let with = |free_streams| Device { free_streams, ..PIXELS };
        let codestreams = Device { free_codestream: 9, ..PIXELS };
        let down = Device { standing: Standing::Down, ..with(9) };
        let chosen = |attempts: &Attempts| {
            schedule(&[CPU, with(3), codestreams, with(4), down]).stream_coder(attempts)
        };
        assert_eq!(chosen(&Attempts::default()), Some(3));
        assert_eq!([&[3][..], &[1, 3]].map(|on| chosen(&failed_on(on))), [Some(1), None]);
    }

    #[test]
    fn only_a_few_fresh_slots_of_a_decoder_are_filled_at_a_time() {
        let fresh = |filling| Device { free_compressed: 0, fresh_compressed: 9, filling, ..JPEGS };
        let decoder = |device| {
            schedule(&[CPU, device]).choose((&Attempts::default()).into(), Patience::Little).compressed
        };
        assert_eq!([0, FILLED_AT_ONCE - 1].map(|filling| decoder(fresh(filling))), [Some(1); 2]);
        assert_eq!(decoder(fresh(FILLED_AT_ONCE)), None);
        let warm = Device { free_compressed: 1, ..fresh(FILLED_AT_ONCE) };
        assert_eq!(decoder(warm), Some(1));
        let all = [CPU, fresh(FILLED_AT_ONCE - 1), fresh(1), warm];
        let chosen = schedule(&all).choose((&Attempts::default()).into(), Patience::WhileAnyMayCome);
        assert_eq!((chosen.compressed, chosen.pixels), (Some(2), None), "the one with the most room");
    }

    #[test]
    fn jpegs_without_room_on_a_decoder_go_to_the_cpu_unless_they_wait() {
        let full = Device { free_compressed: 0, ..JPEGS };
        let with = |patience, decoder| {
            schedule(&[CPU, PIXELS, decoder]).choose((&Attempts::default()).into(), patience).pixels
        };
        let by_cpu = Some(vec![true, false, false]);
        assert_eq!(with(Patience::Little, full), by_cpu);
        let down = Device { standing: Standing::Down, ..full };
        assert_eq!([full, down].map(|decoder| with(Patience::WhileUp, decoder)), [None, by_cpu]);
        assert_eq!([full, down].map(|decoder| with(Patience::WhileAnyMayCome, decoder)), [None, None]);
        let retired = Device { standing: Standing::Retired, ..full };
        assert_eq!(with(Patience::WhileAnyMayCome, retired), Some(vec![false, true, false]));
    }

    #[test]
    fn pixels_go_to_workers_until_they_have_enough_and_to_the_cpu_then() {
        let busy = Device { lent: 8, ..PIXELS };
        let now = |devices: &[Device]| schedule(devices).admitted_now((&Attempts::default()).into());
        assert_eq!(now(&[CPU, busy, PIXELS]), [false, false, true]);
        assert_eq!(now(&[CPU, busy, busy]), [true, false, false]);
        let insisted = Schedule { wait_for_workers: true, ..schedule(&[CPU, busy]) };
        assert_eq!(insisted.admitted_now((&Attempts::default()).into()), [false, true]);
    }

    #[test]
    fn pictures_of_less_worth_leave_a_busy_worker_to_others() {
        let (attempts, busy) = (Attempts::default(), Device { lent: 4, ..PIXELS });
        let now = |worth| schedule(&[CPU, busy]).admitted_now(Request { attempts: &attempts, worth });
        assert_eq!([1.0, 0.5].map(now), [[false, true], [true, false]]);
    }

    #[test]
    fn pictures_that_cost_less_on_the_cpu_stay_there_unless_the_user_insists() {
        let attempts = Attempts::default();
        let request = Request { attempts: &attempts, worth: 0.0 };
        assert_eq!(schedule(&[CPU, PIXELS]).admitted_now(request), [true, false]);
        let insisted = Schedule { wait_for_workers: true, ..schedule(&[CPU, PIXELS]) };
        assert_eq!(insisted.admitted_now(request), [false, true]);
    }
}
