//! Positions of the slices of a DICOM series (PS3.3, C.7.6.2.1.1), and their order.

/// Positions nearer to each other than this, in mm, are one: they are written in few digits.
const STEP: f64 = 1e-4;

/// Directions that differ by no more than this in any coordinate are one.
const SAME_DIRECTION: f64 = 1e-3;

/// The plane that pixels lie in, as far as it is stated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Plane {
    /// The position of its first pixel, in millimetres.
    pub(crate) position: Option<[f64; 3]>,
    /// The directions of its rows and of its columns.
    pub(crate) orientation: Option<[f64; 6]>,
}

/// The places of planes relative to each other.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Places {
    /// The place of each along the normal that all have in common, in steps.
    AlongNormal(Vec<f64>),
    /// These two differ in orientation.
    Turned(usize, usize),
    /// Not all state where they lie.
    Unknown,
}

/// A file of a series: its position in space, and its number.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// The UID of its series.
    pub series: String,
    /// Whether it has several frames.
    pub has_frames: bool,
    pub(crate) plane: Plane,
    /// InstanceNumber.
    pub(crate) number: Option<f64>,
}

/// The order of the slices of one volume.
#[derive(Clone, Debug, PartialEq)]
pub struct SliceOrder {
    /// The slices, as indices of those that were given.
    pub indices: Vec<usize>,
    /// The property that they are ordered by.
    pub by: OrderedBy,
    /// Two slices at one place, or of one number if there are no places.
    pub same: Option<(usize, usize)>,
    /// Two slices of different orientations.
    pub turned: Option<(usize, usize)>,
    /// Slices that seem to be missing.
    pub gaps: Option<Gaps>,
}

/// The property that slices are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderedBy {
    /// Their positions along the normal of their planes.
    Position,
    /// Their InstanceNumbers.
    Number,
    /// Neither: the order in which they were given.
    Nothing,
}

impl Slice {
    /// Returns the order of the slices of one volume, each with a place of its own.
    ///
    /// The places are along the normal of their planes if they have one in common, or else their
    /// numbers.
    pub fn order_of_volume(slices: &[Self]) -> SliceOrder {
        let (by, places, turned) = match (Places::of_slices(slices), numbers(slices)) {
            (Places::AlongNormal(places), _) => (OrderedBy::Position, places, None),
            (other, Some(numbers)) => (OrderedBy::Number, numbers, other.turned()),
            (other, None) => {
                (OrderedBy::Nothing, (0..slices.len()).map(|at| at as f64).collect(), other.turned())
            }
        };
        let indices = Self::order(slices);
        let steps = indices
            .windows(2)
            .map(|pair| Step { between: (pair[0], pair[1]), length: places[pair[1]] - places[pair[0]] });
        let steps: Vec<_> = steps.collect();
        let same = steps.iter().find(|step| step.length == 0.0).map(|step| step.between);
        SliceOrder { same, turned, gaps: gaps(&steps), indices, by }
    }

    /// Returns the order of the slices of a series, as indices.
    ///
    /// Slices are ordered along the normal of their planes, if all lie in planes of one
    /// orientation, and by their numbers where positions are equal; or else by their numbers, if
    /// all have one. Slices that are equal in all of that keep their order.
    pub fn order(slices: &[Self]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..slices.len()).collect();
        if let Some(numbers) = numbers(slices) {
            order.sort_by(|&one, &other| numbers[one].total_cmp(&numbers[other]));
        }
        if let Places::AlongNormal(places) = Places::of_slices(slices) {
            order.sort_by(|&one, &other| places[one].total_cmp(&places[other]));
        }
        order
    }
}

fn numbers(slices: &[Slice]) -> Option<Vec<f64>> {
    slices.iter().map(|slice| slice.number).collect()
}

/// The distance of two neighbouring slices.
pub(crate) struct Step {
    /// The slices.
    pub(crate) between: (usize, usize),
    /// Along their normal.
    pub(crate) length: f64,
}

/// Slices that seem to be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gaps {
    /// The number of such slices.
    pub slices: usize,
    /// The neighbours of the first gap.
    pub around: (usize, usize),
}

/// Returns the gaps of a volume by the steps between its slices, most of them alike.
pub(crate) fn gaps(steps: &[Step]) -> Option<Gaps> {
    let mut lengths: Vec<f64> = steps.iter().map(|step| step.length).collect();
    lengths.sort_by(f64::total_cmp);
    let usual = *lengths.get(lengths.len() / 2).filter(|&&length| length > 0.0)?;
    let missing = |step: &Step| ((step.length / usual).round() as usize).saturating_sub(1);
    let first = steps.iter().find(|step| missing(step) > 0)?;
    Some(Gaps { slices: steps.iter().map(missing).sum(), around: first.between })
}

impl Places {
    /// Returns the places of planes.
    pub(crate) fn of(planes: &[Plane]) -> Self {
        let Some((first, common)) =
            planes.iter().enumerate().find_map(|(at, plane)| Some((at, plane.orientation?)))
        else {
            return Self::Unknown;
        };
        let is_turned = |plane: &Plane| plane.orientation.is_some_and(|own| !is_parallel(own, common));
        if let Some(other) = planes.iter().position(is_turned) {
            return Self::Turned(first, other);
        }
        let [a, b, c, x, y, z] = common;
        let normal = [b * z - c * y, c * x - a * z, a * y - b * x];
        let length = normal.iter().map(|part| part * part).sum::<f64>().sqrt();
        if length < SAME_DIRECTION {
            return Self::Unknown;
        }
        let places = planes.iter().map(|plane| {
            plane.orientation?;
            let along: f64 = plane.position?.iter().zip(normal).map(|(at, part)| at * part / length).sum();
            Some((along / STEP).round())
        });
        places.collect::<Option<_>>().map_or(Self::Unknown, Self::AlongNormal)
    }

    fn of_slices(slices: &[Slice]) -> Self {
        Self::of(&slices.iter().map(|slice| slice.plane).collect::<Vec<_>>())
    }

    fn turned(&self) -> Option<(usize, usize)> {
        if let Self::Turned(one, other) = *self { Some((one, other)) } else { None }
    }
}

fn is_parallel(one: [f64; 6], other: [f64; 6]) -> bool {
    one.iter().zip(other).all(|(one, other)| (one - other).abs() <= SAME_DIRECTION)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXIAL: [f64; 6] = [1., 0., 0., 0., 1., 0.];

    fn slice(position: Option<[f64; 3]>, orientation: Option<[f64; 6]>, number: Option<f64>) -> Slice {
        Slice { series: "1.2".to_owned(), has_frames: false, plane: Plane { position, orientation }, number }
    }

    /// Position, orientation and number.
    type Headers = (Option<[f64; 3]>, Option<[f64; 6]>, Option<f64>);

    fn order<const N: usize>(slices: [Headers; N]) -> Vec<usize> {
        Slice::order(&slices.map(|(position, orientation, number)| slice(position, orientation, number)))
    }

    #[test]
    fn slices_are_in_the_order_of_their_places_along_the_normal() {
        let at = |z| (Some([0., 0., z]), Some(AXIAL), Some(1.));
        assert_eq!(order([at(5.), at(-2.5), at(0.)]), [1, 2, 0]);
        // A tilted gantry: each slice begins elsewhere in its plane.
        let tilted = |z: f64| (Some([-90., 30. - z / 3., z]), Some(AXIAL), None);
        assert_eq!(order([tilted(9.), tilted(-3.), tilted(3.)]), [1, 2, 0]);
        // Sagittal planes: the normal is the x axis.
        let sagittal = |x| (Some([x, 7., 1.]), Some([0., 1., 0., 0., 0., 1.]), None);
        assert_eq!(order([sagittal(3.), sagittal(-1.)]), [1, 0]);
    }

    #[test]
    fn what_lies_at_one_place_is_in_the_order_of_numbers() {
        let at = |z, number| (Some([0., 0., z]), Some(AXIAL), Some(number));
        assert_eq!(order([at(1., 4.), at(0., 3.), at(1. + 1e-7, 2.), at(0., 1.)]), [3, 1, 2, 0]);
        let unnumbered = |z| (Some([0., 0., z]), Some(AXIAL), None);
        assert_eq!(order([at(1., 4.), unnumbered(0.), at(0., 1.)]), [1, 2, 0], "those of one place stay");
    }

    #[test]
    fn what_is_missing_in_a_volume_or_there_twice_is_told() {
        let of = |places: &[(f64, f64)]| {
            let slices =
                places.iter().map(|&(z, number)| slice(Some([0., 0., z]), Some(AXIAL), Some(number)));
            Slice::order_of_volume(&slices.collect::<Vec<_>>())
        };
        let whole = of(&[(2.5, 1.), (0., 2.), (5., 9.), (-2.4, 3.)]);
        let by = OrderedBy::Position;
        let expected = SliceOrder { indices: vec![3, 1, 0, 2], by, same: None, turned: None, gaps: None };
        assert_eq!(whole, expected);
        let turned = [slice(None, Some(AXIAL), None), slice(None, Some([1., 0., 0., 0., 0., -1.]), None)];
        assert_eq!(Slice::order_of_volume(&turned).turned, Some((0, 1)));
        let gaps = of(&[(0., 1.), (1., 2.), (2., 3.), (5., 4.), (6., 5.), (7., 6.), (9., 7.)]);
        assert_eq!(gaps.gaps, Some(Gaps { slices: 3, around: (2, 3) }));
        assert_eq!(of(&[(1., 1.), (0., 2.), (1., 3.)]).same, Some((0, 2)));
        let numbered = |number| slice(None, None, number);
        let by_number = Slice::order_of_volume(&[numbered(Some(3.)), numbered(Some(1.)), numbered(Some(2.))]);
        assert_eq!((by_number.by, &by_number.indices[..]), (OrderedBy::Number, &[1, 2, 0][..]));
        let by_nothing = Slice::order_of_volume(&[numbered(None), numbered(Some(1.))]);
        assert_eq!((by_nothing.by, by_nothing.same), (OrderedBy::Nothing, None));
    }

    #[test]
    fn without_a_common_normal_numbers_tell_and_without_those_nothing_does() {
        let axial = |z, number| (Some([0., 0., z]), Some(AXIAL), number);
        let coronal = (Some([0., 1., 0.]), Some([1., 0., 0., 0., 0., -1.]), Some(1.));
        assert_eq!(order([axial(0., Some(3.)), axial(5., Some(2.)), coronal]), [2, 1, 0]);
        assert_eq!(order([axial(9., Some(3.)), (None, Some(AXIAL), Some(2.))]), [1, 0]);
        assert_eq!(order([axial(9., None), (None, None, Some(2.)), axial(1., Some(1.))]), [0, 1, 2]);
        let flat = Some([1., 0., 0., 1., 0., 0.]);
        assert_eq!(order([(Some([0.; 3]), flat, Some(2.)), (Some([1.; 3]), flat, Some(1.))]), [1, 0]);
        assert_eq!(order([]), [0; 0]);
    }
}
