//! Tables from short samples to levels, several times as fast as arithmetic for many pixels.

use super::form::{Form, PIXELS_EACH};
use super::kind::{Kind, Value, with_values};
use super::mapping::Mapping;
use equalize::Level;

/// The level of a value, and its validity.
#[derive(Clone, Copy)]
pub(super) struct Found {
    /// Its level, meaningless if the value does not count or is refused.
    pub(super) level: u16,
    pub(super) counts: bool,
    pub(super) is_refused: bool,
}

impl Found {
    #[inline(always)]
    pub(super) fn of(form: &Form, mapping: &Mapping, value: f64) -> Self {
        let level = mapping.level(value);
        Self {
            level: if form.inverted { form.top() - level } else { level },
            counts: form.counts(value),
            is_refused: form.refuses(value),
        }
    }
}

/// The levels of all samples of at most 16 bits, by their bits.
pub(super) struct FoundTable(Vec<Found>);

impl FoundTable {
    /// Makes the table, if it pays for so many pixels of a form.
    pub(super) fn worth(form: &Form, mapping: &Mapping, pixels: u64) -> Option<Self> {
        fn make<V: Value>(form: &Form, mapping: &Mapping) -> FoundTable {
            let found = |bits: usize| Found::of(form, mapping, of_bits::<V>(bits).value());
            FoundTable((0..entries(form.kind)).map(found).collect())
        }
        let pays = form.kind.bytes() <= 2 && pixels >= PIXELS_EACH * entries(form.kind) as u64;
        pays.then(|| with_values!(form.kind, make(form, mapping)))
    }

    /// Returns the level of a sample, which is of the table's kind.
    #[inline(always)]
    pub(super) fn of<V: Value>(&self, sample: &[u8]) -> Found {
        let bits = if size_of::<V>() == 1 {
            usize::from(sample[0])
        } else {
            u16::from_ne_bytes([sample[0], sample[1]]).into()
        };
        self.0[bits]
    }

    /// Makes the levels of pixels of one sample, which all count; returns whether any is refused.
    pub(super) fn fill<V: Value>(&self, samples: &[u8], levels: &mut [u8]) -> bool {
        let mut is_refused = false;
        let levels = levels.chunks_exact_mut(size_of::<V::Level>());
        for (sample, level) in samples.chunks_exact(size_of::<V>()).zip(levels) {
            let found = self.of::<V>(sample);
            is_refused |= found.is_refused;
            level.copy_from_slice(bytemuck::bytes_of(&V::Level::from_level(found.level.into())));
        }
        is_refused
    }
}

/// Returns the number of samples of at most 16 bits.
fn entries(kind: Kind) -> usize {
    1 << (8 * kind.bytes())
}

/// Returns the sample of at most 16 bits that has these.
fn of_bits<V: Value>(bits: usize) -> V {
    if size_of::<V>() == 1 {
        bytemuck::pod_read_unaligned(&[bits as u8])
    } else {
        bytemuck::pod_read_unaligned(&(bits as u16).to_ne_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::cores::Cores;
    use crate::samples::mapped::{self, Mapped, NoData, Purpose, Rows};
    use crate::samples::size::Size;
    use crate::{CodecError, LevelCount, Range};
    use equalize::Layout;

    const WIDTH: usize = 512;
    const HEIGHT: usize = 520;

    /// Rows of samples in memory, one at a time.
    struct Samples<'s>(&'s [u8]);

    impl Rows for Samples<'_> {
        type Tool = ();

        fn at_once(&self) -> usize {
            1
        }

        fn tool_bytes(&self) -> u64 {
            0
        }

        fn read(&self, (): &mut (), first: usize, into: &mut [u8]) -> Result<(), CodecError> {
            into.copy_from_slice(&self.0[first * into.len()..][..into.len()]);
            Ok(())
        }
    }

    /// Returns levels, and the samples that are made of them.
    fn there_and_back(
        form: Form,
        range: Option<Range>,
        samples: &[u8],
        height: usize,
    ) -> (Mapped, Vec<u8>, Vec<u8>) {
        let purpose = Purpose { range, gray: None, restores: true, levels: LevelCount::Full, of_all: None };
        let size = Size { width: WIDTH as u32, height: height as u32 };
        let mut slot = vec![0; 4 * WIDTH * height];
        let decoded = mapped::decode(&Samples(samples), form, size, purpose, &mut slot, &Cores::none());
        let (layout, mapped): (Layout, Mapped) = decoded.unwrap();
        slot.truncate(layout.bytes() as usize);
        let (mut back, mut row) = (Vec::new(), Vec::new());
        for piece in mapped.pieces(&layout, &slot, 7) {
            piece.make_samples(&mut row);
            back.extend_from_slice(&row);
        }
        (mapped, slot, back)
    }

    #[test]
    fn what_is_looked_up_is_what_is_computed() {
        let range = Some(Range::new(-3.0, 700.0).unwrap());
        let kinds =
            [Kind::Signed8, Kind::Unsigned8, Kind::Signed16, Kind::Unsigned16, Kind::Float16, Kind::Float32];
        for (kind, inverted) in kinds.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
            let form = Form { inverted, no_data: Some(NoData::value(5.0)), ..Form::of(kind) };
            let row = WIDTH * kind.bytes();
            let mut state = 1_u32;
            let mut samples: Vec<u8> = (0..row * HEIGHT)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 24) as u8
                })
                .collect();
            // Each row hides a pixel, so that each has a mask.
            let five = kind.sample(5.0).unwrap();
            samples.chunks_exact_mut(row).for_each(|row| row[..five.len()].copy_from_slice(&five));
            let (mapped, levels, back) = there_and_back(form, range, &samples, HEIGHT);
            assert!(!mapped.samples.is_empty(), "{kind:?}: samples are looked up");
            let of_row = levels.len() / HEIGHT;
            for (at, samples) in samples.chunks_exact(row).enumerate().step_by(16) {
                let (alone, levels_alone, back_alone) = there_and_back(form, range, samples, 1);
                assert!(alone.samples.is_empty());
                assert_eq!(levels[at * of_row..][..of_row], levels_alone, "{kind:?}, row {at}");
                assert_eq!(back[at * row..][..row], back_alone, "{kind:?}, row {at}");
            }
        }
    }

    #[test]
    fn rows_of_which_nothing_counts_do_not_stretch_the_range() {
        let row: Vec<f32> = (0..WIDTH).map(|at| if at == 0 { f32::NAN } else { at as f32 }).collect();
        let missing = [f32::NAN; WIDTH];
        let picture = [&missing[..], &row, &missing].concat();
        let (of_all, of_one) = (bytemuck::cast_slice(&picture), bytemuck::cast_slice(&row));
        let form = Form::of(Kind::Float32);
        let (_, levels, back) = there_and_back(form, None, of_all, 3);
        let (_, levels_alone, back_alone) = there_and_back(form, None, of_one, 1);
        let of_row = levels_alone.len();
        assert_eq!(levels[of_row..2 * of_row], levels_alone);
        assert_eq!(back[4 * WIDTH..8 * WIDTH], back_alone);
    }
}
