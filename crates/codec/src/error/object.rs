//! DICOM objects that are not pictures, by their SOP classes: their samples are not brightness.
//!
//! Source: PS3.4, annexes B.5 and I.4.

use serde::Serialize;

/// The kind of a DICOM object that is not a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Object {
    /// Radiation doses.
    Dose,
    /// A plan, a record or structures of radiotherapy.
    Plan,
    /// The objects or classes to which the pixels of other objects belong.
    Segmentation,
    /// Measured or computed values.
    ParametricMap,
    /// The meaning of values of other objects.
    Mapping,
    /// How other objects are shown.
    PresentationState,
    /// Curves over time, such as an electrocardiogram.
    Waveform,
    /// A structured report, or measurements.
    Report,
    /// An encapsulated document, such as a PDF.
    Document,
    /// Positions of other objects in space, surfaces, or raw data.
    Geometry,
}

/// The root of the storage classes.
const STORAGE: &str = "1.2.840.10008.5.1.4.1.1.";

/// Pictures among the classes whose numbers begin like those of plans.
const RADIOTHERAPY_IMAGES: [&str; 3] = ["481.1", "481.23", "481.24"];

impl Object {
    /// Returns the kind of objects of this SOP class, unless it is a picture, or an unknown class.
    pub(crate) fn of_class(uid: &str) -> Option<Self> {
        let class = uid.strip_prefix(STORAGE)?;
        let (root, number) = class.split_once('.').unwrap_or((class, ""));
        Some(match (root, number) {
            ("481", "2") => Self::Dose,
            ("481", _) if RADIOTHERAPY_IMAGES.contains(&class) => return None,
            ("481", _) => Self::Plan,
            ("66", "4" | "7" | "8") => Self::Segmentation,
            ("66", _) => Self::Geometry,
            ("30", "") => Self::ParametricMap,
            ("67", "") => Self::Mapping,
            ("11", _) => Self::PresentationState,
            ("9", _) => Self::Waveform,
            ("88" | "78" | "79" | "80" | "90", _) => Self::Report,
            ("104", _) => Self::Document,
            ("68", "1" | "2") => Self::Geometry,
            _ => return None,
        })
    }

    /// Returns its name, in the singular or the plural.
    pub const fn name(self, one: bool) -> &'static str {
        match (self, one) {
            (Self::Dose, true) => "dose",
            (Self::Dose, false) => "doses",
            (Self::Plan, true) => "plan",
            (Self::Plan, false) => "plans",
            (Self::Segmentation, true) => "segmentation",
            (Self::Segmentation, false) => "segmentations",
            (Self::ParametricMap, true) => "parametric map",
            (Self::ParametricMap, false) => "parametric maps",
            (Self::Mapping, true) => "real-world value mapping",
            (Self::Mapping, false) => "real-world value mappings",
            (Self::PresentationState, true) => "presentation state",
            (Self::PresentationState, false) => "presentation states",
            (Self::Waveform, true) => "waveform",
            (Self::Waveform, false) => "waveforms",
            (Self::Report, true) => "report",
            (Self::Report, false) => "reports",
            (Self::Document, true) => "document",
            (Self::Document, false) => "documents",
            (Self::Geometry, true) => "registration or raw data",
            (Self::Geometry, false) => "registrations and raw data",
        }
    }

    /// Returns the user's remedy for a file of this kind.
    pub(crate) const fn remedy(self) -> &'static str {
        match self {
            Self::Segmentation => "take it as a picture of its labels with --segmentations, or leave it out",
            _ => "leave it out",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_told_apart_by_their_numbers() {
        let of = |class: &str| Object::of_class(&format!("{STORAGE}{class}"));
        for (class, object) in [
            ("481.2", Object::Dose),
            ("481.3", Object::Plan),
            ("481.5", Object::Plan),
            ("66.4", Object::Segmentation),
            ("66", Object::Geometry),
            ("30", Object::ParametricMap),
            ("67", Object::Mapping),
            ("11.1", Object::PresentationState),
            ("9.1.1", Object::Waveform),
            ("88.11", Object::Report),
            ("104.1", Object::Document),
        ] {
            assert_eq!(of(class), Some(object), "{class}");
        }
        // CT, enhanced CT, RT images, PET, ultrasound, secondary captures, slides.
        for class in ["2", "2.1", "481.1", "481.23", "128", "3.1", "7", "7.4", "77.1.6", "1.1.1", "30.9"] {
            assert_eq!(of(class), None, "{class}");
        }
        assert_eq!(Object::of_class("1.2.826.0.1.3680043.8.498.1"), None);
    }
}
