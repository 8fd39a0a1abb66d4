use super::*;
use crate::slot::schedule::{Attempts, FILLED_AT_ONCE, Patience};
use std::os::fd::AsFd;
use std::time::Duration;

fn nothing() -> Release {
    Box::new(|_| ())
}

#[test]
fn memory_is_shared_through_its_descriptor() {
    let mut ours = Memory::shared(5000).unwrap();
    ours.take_pages().unwrap();
    let fd = ours.as_fd().try_clone_to_owned().unwrap();
    let theirs = Memory::from_fd(fd, 5000, ours.generation).unwrap();
    ours.bytes_mut()[4999] = 7;
    assert_eq!(theirs.bytes()[4999], 7);
}

#[test]
fn shared_memory_has_all_its_pages_where_huge_pages_may_begin() {
    let mut ours = Memory::shared(5 << 20).unwrap();
    ours.take_pages().unwrap();
    let pages = rustix::fs::fstat(&ours).unwrap().st_blocks as usize * 512;
    assert_eq!((pages, ours.bytes().as_ptr().addr() % (2 << 20)), (5 << 20, 0));
    assert!(ours.bytes().iter().all(|&byte| byte == 0));
    ours.bytes_mut().fill(7);
    let theirs = Memory::from_fd(ours.as_fd().try_clone_to_owned().unwrap(), 5 << 20, 1).unwrap();
    assert!(theirs.bytes().iter().all(|&byte| byte == 7));
    assert_eq!(theirs.bytes().as_ptr().addr() % (2 << 20), 0);
}

#[test]
fn a_descriptor_of_another_size_is_refused() {
    let ours = Memory::shared(5000).unwrap();
    let fd = ours.as_fd().try_clone_to_owned().unwrap();
    assert!(Memory::from_fd(fd, 6000, 1).is_err());
}

#[test]
fn private_memory_keeps_its_bytes_when_its_size_changes() {
    let mut memory = Memory::private(5000).unwrap();
    memory.bytes_mut()[4999] = 7;
    let generation = memory.generation;
    let memory = memory.resized(3 << 20).unwrap();
    assert_eq!((memory.bytes().len(), memory.bytes()[4999], memory.bytes()[5000]), (3 << 20, 7, 0));
    assert_ne!(memory.generation, generation);
    assert_eq!(memory.resized(5000).unwrap().bytes()[4999], 7);
}

#[test]
fn a_slot_that_grows_is_accounted_for_once() {
    let pool = Arc::new(SlotPool::new(8 * STEP));
    pool.join_cpu(1);
    drop(pool.take(STEP / 2, 0, 0, &Attempts::default()).unwrap());
    let slot = pool.take(2 * STEP, 0, 0, &Attempts::default()).unwrap();
    assert_eq!(pool.memory(), (slot.bytes().len() as u64, 8 * STEP));
}

#[test]
fn many_small_pictures_are_under_way_at_a_time_and_few_large_ones() {
    let pool = Arc::new(SlotPool::new(1 << 30));
    let cpu = pool.join_cpu(2);
    pool.add(cpu, 3, Kind::Small);
    let attempts = Attempts::default();
    let large = pool.take(SMALL + 1, 0, 0, &attempts).unwrap();
    let mut small: Vec<_> = (0..4).map(|_| pool.take(SMALL, 0, 0, &attempts).unwrap()).collect();
    let ids: std::collections::BTreeSet<_> = small.iter().chain([&large]).map(Slot::id).collect();
    assert_eq!(ids, (0..5).collect());
    // The slots of small pictures leave the share of the large one alone.
    assert_eq!(pool.memory().0, large.bytes().len() as u64 + 4 * STEP);
    assert_eq!(pool.slots()[0], SlotUse { all: 5, taken: 5 });
    let at = small.iter().position(|slot| slot.id() >= 2).unwrap();
    drop(small.swap_remove(at));
    let waiting = {
        let pool = Arc::clone(&pool);
        std::thread::spawn(move || pool.take(SMALL + 1, 0, 0, &Attempts::default()).unwrap().id())
    };
    std::thread::sleep(Duration::from_millis(30));
    assert!(!waiting.is_finished(), "a large picture took a small one's slot");
    drop(large);
    assert!(waiting.join().unwrap() < 2);
}

#[test]
fn only_bytes_that_no_worker_looks_for_begin_elsewhere() {
    let pool = Arc::new(SlotPool::new(1 << 30));
    let cpu = pool.join_cpu(1);
    let gpu = pool.join_worker(1, nothing());
    let address_of = |device| {
        let mut slot = pool.take(1000, 0, 0, &Attempts::default()).unwrap();
        assert_eq!(slot.device(), device);
        slot.begin_at(17);
        (slot.bytes().as_ptr().addr() % 4096, slot.memory().bytes().len() - slot.bytes_mut().len())
    };
    assert_eq!(address_of(cpu), (17, 17));
    pool.up(gpu);
    assert_eq!(address_of(gpu), (0, 0));
}

#[test]
fn a_picture_larger_than_the_bound_is_refused_with_the_flag() {
    let pool = Arc::new(SlotPool::new(1000));
    pool.join_cpu(1);
    let error = pool.take(1001, 0, 0, &Attempts::default()).err().unwrap().to_string();
    assert!(error.contains("--memory"), "{error}");
}

#[test]
fn idle_slots_give_up_memory_for_a_large_picture() {
    let pool = Arc::new(SlotPool::new(4 * STEP));
    pool.join_cpu(4);
    let slots: Vec<Slot> = (0..4).map(|_| pool.take(STEP / 2, 0, 0, &Attempts::default()).unwrap()).collect();
    drop(slots);
    let slot = pool.take(4 * STEP, 0, 0, &Attempts::default()).unwrap();
    assert!(slot.bytes().len() as u64 == 4 * STEP);
}

#[test]
fn memory_taken_aside_counts_until_it_is_released() {
    let pool = Arc::new(SlotPool::new(2 * STEP));
    pool.join_cpu(2);
    assert!(pool.take(STEP, 2 * STEP, 0, &Attempts::default()).is_err());
    let mut first = pool.take(STEP / 2, STEP, 0, &Attempts::default()).unwrap();
    let other = Arc::clone(&pool);
    let waiting = std::thread::spawn(move || drop(other.take(STEP, 0, 0, &Attempts::default()).unwrap()));
    std::thread::sleep(Duration::from_millis(30));
    assert!(!waiting.is_finished());
    first.keep_aside(0);
    waiting.join().unwrap();
}

#[test]
fn a_taker_waits_until_the_bound_allows_it() {
    let pool = Arc::new(SlotPool::new(2 * STEP));
    pool.join_cpu(2);
    let first = pool.take(2 * STEP, 0, 0, &Attempts::default()).unwrap();
    let other = Arc::clone(&pool);
    let waiting =
        std::thread::spawn(move || other.take(STEP, 0, 0, &Attempts::default()).unwrap().bytes().len());
    std::thread::sleep(Duration::from_millis(30));
    assert!(!waiting.is_finished());
    drop(first);
    assert!(waiting.join().unwrap() as u64 >= STEP);
}

#[test]
fn waiting_for_memory_is_told_from_waiting_for_a_slot() {
    let waited = |memory: u64, slots| {
        let pool = Arc::new(SlotPool::new(memory));
        pool.join_cpu(slots);
        let first = pool.take(2 * STEP, 0, 0, &Attempts::default()).unwrap();
        let other = Arc::clone(&pool);
        let waiting = std::thread::spawn(move || drop(other.take(STEP, 0, 0, &Attempts::default()).unwrap()));
        while pool.lock().takers.is_empty() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(30));
        drop(first);
        waiting.join().unwrap();
        pool.waited_for_memory()
    };
    assert!(waited(2 * STEP, 2) >= Duration::from_millis(20));
    assert_eq!(waited(9 * STEP, 1), Duration::ZERO);
}

#[test]
fn takers_are_served_in_the_order_in_which_they_came() {
    let pool = Arc::new(SlotPool::new(1 << 30));
    pool.join_cpu(2);
    let held = [(); 2].map(|()| pool.take(1, 0, 0, &Attempts::default()).unwrap());
    let (tell, told) = crossbeam_channel::unbounded();
    let takers: Vec<_> = (0..8)
        .map(|number| {
            let (other, tell) = (Arc::clone(&pool), tell.clone());
            let waiting = pool.lock().takers.len();
            let taker = std::thread::spawn(move || {
                let slot = other.take(1, 0, 0, &Attempts::default()).unwrap();
                tell.send(number).unwrap();
                drop(slot);
            });
            while pool.lock().takers.len() == waiting {
                std::thread::yield_now();
            }
            taker
        })
        .collect();
    let [first, _second] = held;
    drop(first);
    takers.into_iter().for_each(|taker| taker.join().unwrap());
    assert_eq!(told.try_iter().collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
}

#[test]
fn a_large_picture_that_waits_is_not_overtaken_by_small_ones() {
    let pool = Arc::new(SlotPool::new(4 * STEP));
    pool.join_cpu(3);
    let held = pool.take(STEP, 0, 0, &Attempts::default()).unwrap();
    let taker = |bytes: u64| {
        let other = Arc::clone(&pool);
        std::thread::spawn(move || drop(other.take(bytes, 0, 0, &Attempts::default()).unwrap()))
    };
    let large = taker(4 * STEP);
    while pool.lock().takers.is_empty() {
        std::thread::yield_now();
    }
    // There is room for this one, but if all later ones were let through, the large one might never
    // get any.
    let small = taker(STEP);
    while pool.lock().takers.len() < 2 && !small.is_finished() {
        std::thread::yield_now();
    }
    assert!(!small.is_finished());
    drop(held);
    large.join().unwrap();
    small.join().unwrap();
}

#[test]
fn the_cpu_leaves_pictures_to_a_worker_that_is_up() {
    let pool = Arc::new(SlotPool::new(1 << 30));
    let cpu = pool.join_cpu(1);
    let gpu = pool.join_worker(1, nothing());
    let take = |attempts: &Attempts| pool.take(1, 0, 0, attempts).unwrap().device();
    assert_eq!(take(&Attempts::default()), cpu);
    pool.up(gpu);
    assert_eq!(take(&Attempts::default()), gpu);
    assert_eq!(take(&Attempts { failed_on: vec![gpu], ..Attempts::default() }), cpu);
    pool.down(gpu);
    assert_eq!(take(&Attempts::default()), cpu);
}

#[test]
fn two_failures_leave_the_cpu() {
    let pool = Arc::new(SlotPool::new(1 << 30));
    let cpu = pool.join_cpu(1);
    let gpus: Vec<DeviceId> = (0..3).map(|_| pool.join_worker(1, nothing())).collect();
    gpus.iter().for_each(|&gpu| pool.up(gpu));
    let slot = pool.take(1, 0, 0, &Attempts { failed_on: vec![gpus[0]], ..Attempts::default() }).unwrap();
    assert!(slot.device() == gpus[1] || slot.device() == gpus[2]);
    assert_eq!(
        pool.take(1, 0, 0, &Attempts { failed_on: vec![gpus[0], gpus[1]], ..Attempts::default() })
            .unwrap()
            .device(),
        cpu
    );
}

#[test]
fn slots_for_which_no_more_files_can_be_opened_are_waited_for() {
    let pool = Arc::new(SlotPool::new(1 << 30));
    pool.bound_files(3);
    pool.join_cpu(1);
    let (tell, given_up) = crossbeam_channel::unbounded();
    let gpu = pool.join_worker(4, Box::new(move |slot| tell.send(slot).unwrap()));
    pool.add(gpu, 1, Kind::Compressed);
    pool.up(gpu);
    let mut held = [(); 3].map(|()| Some(pool.take(1, 0, 0, &Attempts::default()).unwrap()));
    let other = Arc::clone(&pool);
    let waiting = std::thread::spawn(move || other.take(1, 0, 0, &Attempts::default()).unwrap().device());
    std::thread::sleep(Duration::from_millis(30));
    assert!(!waiting.is_finished());
    let first = held[0].take().unwrap();
    let id = first.id();
    drop(first);
    assert_eq!(waiting.join().unwrap(), gpu);
    assert!(given_up.is_empty());
    // A free slot of the other kind gives up its file.
    let needs = Needs { pixels: 1, aside: 0, compressed: 1, compressed_aside: 0 };
    assert!(matches!(
        pool.take_either(needs, 0, &Attempts::default(), Patience::WhileAnyMayCome),
        Ok(Room::Compressed(_))
    ));
    assert_eq!(given_up.try_iter().collect::<Vec<_>>(), [id]);
}

fn devices(slots: &Slots) -> Vec<DeviceId> {
    let mut devices: Vec<_> = slots.planes.iter().map(Slot::device).collect();
    devices.sort_unstable();
    devices
}

#[test]
fn planes_are_spread_over_the_workers_and_the_whole_stays_on_the_cpu() {
    let pool = Arc::new(SlotPool::new(1 << 30));
    let cpu = pool.join_cpu(8);
    let gpus: Vec<DeviceId> = (0..3).map(|_| pool.join_worker(4, nothing())).collect();
    let take = |attempts: &Attempts| pool.take_split(300, 0, 100, 0, attempts).unwrap();
    assert_eq!(devices(&take(&Attempts::default())), [cpu; 3]);
    gpus.iter().for_each(|&gpu| pool.up(gpu));
    let slots = take(&Attempts::default());
    assert_eq!((slots.whole.device(), devices(&slots)), (cpu, gpus.clone()));
    let [first, second, third] = gpus[..] else { unreachable!() };
    let slots = take(&Attempts { failed_on: vec![second], ..Attempts::default() });
    assert!([vec![first, first, third], vec![first, third, third]].contains(&devices(&slots)));
    assert_eq!(devices(&take(&Attempts { failed_on: vec![first, second], ..Attempts::default() })), [cpu; 3]);
}

#[test]
fn a_split_picture_takes_all_its_slots_or_none() {
    let pool = Arc::new(SlotPool::new(10 * STEP));
    pool.join_cpu(5);
    let held: Vec<Slot> = (0..2).map(|_| pool.take(1, 0, 0, &Attempts::default()).unwrap()).collect();
    let other = Arc::clone(&pool);
    let waiting =
        std::thread::spawn(move || other.take_split(STEP, STEP, 1, 0, &Attempts::default()).unwrap());
    std::thread::sleep(Duration::from_millis(30));
    assert!(!waiting.is_finished());
    // The slots that it could have are still free for others.
    assert_eq!(pool.lock().free.len(), 3);
    drop(held);
    let slots = waiting.join().unwrap();
    assert_eq!((slots.planes.len(), pool.lock().free.len()), (3, 1));
    drop(slots);
    let state = pool.lock();
    assert_eq!(state.memory_left + state.free.iter().map(Buffer::capacity).sum::<u64>(), 10 * STEP);
}

#[test]
fn a_split_picture_that_fills_the_bound_gets_its_slots() {
    // Rounded up, or in slots larger than requested, the parts would exceed the bound.
    let pool = Arc::new(SlotPool::new(10 * STEP));
    pool.join_cpu(4);
    drop(pool.take(8 * STEP, 0, 0, &Attempts::default()).unwrap());
    let (done, taken) = crossbeam_channel::bounded(1);
    let other = Arc::clone(&pool);
    std::thread::spawn(move || {
        done.send(other.take_split(3 * STEP, STEP, 2 * STEP, 0, &Attempts::default()))
    });
    let slots = taken.recv_timeout(Duration::from_secs(10)).expect("nobody is left to wait for").unwrap();
    assert_eq!(slots.planes.len(), 3);
    drop(slots);
    let state = pool.lock();
    assert_eq!(state.memory_left + state.free.iter().map(Buffer::capacity).sum::<u64>(), 10 * STEP);
}

#[test]
fn workers_that_are_insisted_on_are_waited_for() {
    let pool = Arc::new(SlotPool::new(1 << 30));
    pool.join_cpu(4);
    let gpus: Vec<DeviceId> = (0..2).map(|_| pool.join_worker(4, nothing())).collect();
    pool.wait_for_workers(true);
    pool.up(gpus[0]);
    let other = Arc::clone(&pool);
    let waiting = std::thread::spawn(move || other.take_split(1, 0, 1, 0, &Attempts::default()).unwrap());
    std::thread::sleep(Duration::from_millis(30));
    assert!(!waiting.is_finished());
    pool.up(gpus[1]);
    assert!(devices(&waiting.join().unwrap()).contains(&gpus[1]));
}

/// Takes a slot for a picture of 100 bytes of pixels, or 10 compressed.
fn either(pool: &Arc<SlotPool>, attempts: &Attempts, insists: bool) -> Room {
    let patience = if insists { Patience::WhileAnyMayCome } else { Patience::Little };
    pool.take_either(
        Needs { pixels: 100, aside: 0, compressed: 10, compressed_aside: 10 },
        0,
        attempts,
        patience,
    )
    .unwrap()
}

#[test]
fn compressed_pictures_go_to_a_device_that_decodes_until_it_has_enough() {
    let pool = Arc::new(SlotPool::new(100 * STEP));
    let cpu = pool.join_cpu(8);
    let gpu = pool.join_worker(2, nothing());
    let decoder = pool.join_worker(0, nothing());
    pool.add(decoder, 2, Kind::Compressed);
    let is_compressed = |room: &Room| matches!(room, Room::Compressed(slot) if slot.device() == decoder);
    let on = |room: Room| match room {
        Room::Pixels(slot) | Room::Compressed(slot) => slot.device(),
    };
    pool.up(gpu);
    assert_eq!(on(either(&pool, &Attempts::default(), false)), cpu, "the decoder is not up");
    pool.up(decoder);
    let held: Vec<Room> = (0..2).map(|_| either(&pool, &Attempts::default(), false)).collect();
    assert!(held.iter().all(is_compressed));
    assert_eq!(on(either(&pool, &Attempts::default(), false)), cpu, "it has enough");
    let declined = Attempts { declined: true, ..Attempts::default() };
    assert_eq!(on(either(&pool, &declined, true)), gpu);
    let failed = Attempts { failed_on: vec![decoder], ..Attempts::default() };
    assert_eq!(on(either(&pool, &failed, true)), gpu);
    pool.down(gpu);
    assert_eq!(pool.take(1, 0, 0, &Attempts::default()).unwrap().device(), cpu, "a decoder takes no pixels");
}

#[test]
fn fresh_slots_for_compressed_pictures_are_handed_out_a_few_at_a_time() {
    let pool = Arc::new(SlotPool::new(100 * STEP));
    pool.join_cpu(8);
    let decoder = pool.join_worker(0, nothing());
    pool.add(decoder, FILLED_AT_ONCE + 3, Kind::Compressed);
    pool.up(decoder);
    let compressed = |room: Room| match room {
        Room::Compressed(slot) => Some(slot),
        _ => None,
    };
    let next = || compressed(either(&pool, &Attempts::default(), false));
    let mut filling: Vec<Slot> = (0..FILLED_AT_ONCE).map(|_| next().unwrap()).collect();
    assert!(next().is_none(), "the CPU does it");
    filling[0].note_filled();
    filling[0].note_filled();
    let other = next().unwrap();
    assert!(next().is_none(), "it was filled once");
    drop(other);
    let warm = next().unwrap();
    drop((warm, filling));
    let all: Vec<Slot> = std::iter::from_fn(next).collect();
    assert_eq!(all.len(), FILLED_AT_ONCE + 3, "only two of them are fresh");
}

#[test]
fn what_a_worker_has_no_time_for_the_cpu_does_alone_unless_workers_are_insisted_on() {
    let pool = Arc::new(SlotPool::new(100 * STEP));
    let cpu = pool.join_cpu(1);
    let gpu = pool.join_worker(1, nothing());
    pool.up(gpu);
    let take = || {
        let (done, taken) = crossbeam_channel::bounded(1);
        let other = Arc::clone(&pool);
        std::thread::spawn(move || done.send(other.take(1, 0, 0, &Attempts::default()).unwrap()));
        taken
    };
    let long = Duration::from_secs(10);
    let pixels = take().recv_timeout(long).unwrap();
    assert_eq!(pixels.device(), gpu);
    (0..8).for_each(|_| pool.lend(gpu));
    let alone = take().recv_timeout(long).expect("the CPU has a slot");
    assert_eq!(alone.device(), cpu);
    drop(alone);
    pool.take_back(gpu, 8);
    let waits_for_slot = take();
    assert!(waits_for_slot.recv_timeout(Duration::from_millis(30)).is_err(), "the worker has time");
    drop(pixels);
    let pixels = waits_for_slot.recv_timeout(long).unwrap();
    pool.wait_for_workers(true);
    (0..8).for_each(|_| pool.lend(gpu));
    let waiting = take();
    assert!(waiting.recv_timeout(Duration::from_millis(30)).is_err());
    drop(pixels);
    assert_eq!(waiting.recv_timeout(long).unwrap().device(), gpu);
}

#[test]
fn compressed_pictures_too_wait_for_workers_that_are_insisted_on() {
    let pool = Arc::new(SlotPool::new(100 * STEP));
    pool.join_cpu(4);
    let gpu = pool.join_worker(2, nothing());
    let decoder = pool.join_worker(0, nothing());
    pool.add(decoder, 1, Kind::Compressed);
    pool.wait_for_workers(true);
    let other = Arc::clone(&pool);
    let waiting = std::thread::spawn(move || match either(&other, &Attempts::default(), false) {
        Room::Pixels(slot) | Room::Compressed(slot) => slot.device(),
    });
    std::thread::sleep(Duration::from_millis(30));
    assert!(!waiting.is_finished());
    pool.up(gpu);
    assert_ne!(waiting.join().unwrap(), decoder, "it is not up");
}

#[test]
fn what_a_compressed_picture_takes_aside_counts_and_comes_back() {
    let pool = Arc::new(SlotPool::new(100 * STEP));
    let decoder = pool.join_worker(0, nothing());
    pool.add(decoder, 1, Kind::Compressed);
    pool.up(decoder);
    let needs = Needs { pixels: 1, aside: 0, compressed: 1, compressed_aside: 7 };
    let Room::Compressed(mut slot) =
        pool.take_either(needs, 0, &Attempts::default(), Patience::WhileAnyMayCome).unwrap()
    else {
        unreachable!()
    };
    let with_aside = pool.memory().0;
    slot.keep_aside(0);
    assert_eq!(with_aside - pool.memory().0, 7);
    let too_much = Needs { compressed_aside: 100 * STEP, ..needs };
    let refused = pool.take_either(too_much, 0, &Attempts::default(), Patience::WhileAnyMayCome);
    assert!(matches!(refused, Err(SlotError::LargerThanMemory { .. })));
}

#[test]
fn who_insists_on_a_decoder_waits_while_one_may_come() {
    let pool = Arc::new(SlotPool::new(100 * STEP));
    pool.join_cpu(1);
    let decoder = pool.join_worker(0, nothing());
    pool.add(decoder, 1, Kind::Compressed);
    let waits = || {
        let other = Arc::clone(&pool);
        let waiting = std::thread::spawn(move || {
            matches!(either(&other, &Attempts::default(), true), Room::Compressed(_))
        });
        std::thread::sleep(Duration::from_millis(30));
        assert!(!waiting.is_finished());
        waiting
    };
    let first = waits();
    pool.up(decoder);
    assert!(first.join().unwrap());
    pool.down(decoder);
    let second = waits();
    pool.retire(decoder);
    assert!(!second.join().unwrap(), "none comes any more");
}
