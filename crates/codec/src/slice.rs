//! Where the slices of a DICOM series lie (PS3.3, C.7.6.2.1.1), and the order that follows.

/// Positions nearer to each other than this, in millimetres, are one: they are written in few digits.
const STEP: f64 = 1e-4;

/// Directions that differ by no more than this in any coordinate are one.
const SAME_DIRECTION: f64 = 1e-3;

/// A file of a series: where it lies in space, and its number.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// The UID of its series.
    pub series: String,
    /// Where its first pixel lies, in millimetres.
    pub(crate) position: Option<[f64; 3]>,
    /// The directions of its rows and of its columns.
    pub(crate) orientation: Option<[f64; 6]>,
    /// InstanceNumber.
    pub(crate) number: Option<f64>,
}

impl Slice {
    /// Returns the order of the slices of a series, as indices of these: along the normal of their planes, if all lie in planes of one
    /// orientation, and by their numbers where positions are equal; or else by their numbers, if all have one. What is equal in all of that
    /// stays in its order.
    pub fn order(slices: &[Self]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..slices.len()).collect();
        if let Some(numbers) = slices.iter().map(|slice| slice.number).collect::<Option<Vec<_>>>() {
            order.sort_by(|&one, &other| numbers[one].total_cmp(&numbers[other]));
        }
        if let Some(places) = along_normal(slices) {
            order.sort_by(|&one, &other| places[one].total_cmp(&places[other]));
        }
        order
    }
}

/// Returns how far each slice lies along the normal of all, in steps; `None` if they have none in common.
fn along_normal(slices: &[Slice]) -> Option<Vec<f64>> {
    let common = slices.first()?.orientation?;
    let [a, b, c, x, y, z] = common;
    let normal = [b * z - c * y, c * x - a * z, a * y - b * x];
    let length = normal.iter().map(|part| part * part).sum::<f64>().sqrt();
    if length < SAME_DIRECTION {
        return None;
    }
    let places = slices.iter().map(|slice| {
        let is_parallel =
            slice.orientation?.iter().zip(common).all(|(own, of_all)| (own - of_all).abs() <= SAME_DIRECTION);
        let along: f64 = slice.position?.iter().zip(normal).map(|(at, part)| at * part / length).sum();
        is_parallel.then(|| (along / STEP).round())
    });
    places.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AXIAL: [f64; 6] = [1., 0., 0., 0., 1., 0.];

    fn slice(position: Option<[f64; 3]>, orientation: Option<[f64; 6]>, number: Option<f64>) -> Slice {
        Slice { series: "1.2".to_owned(), position, orientation, number }
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
        // A gantry that is tilted: each slice begins elsewhere in its plane.
        let tilted = |z: f64| (Some([-90., 30. - z / 3., z]), Some(AXIAL), None);
        assert_eq!(order([tilted(9.), tilted(-3.), tilted(3.)]), [1, 2, 0]);
        // Sagittal planes, whose normal is the x axis.
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
