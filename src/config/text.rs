//! Values as they are written in files.

use clap::ValueEnum;

/// Serde for optional values that are written as text.
///
/// Reads through [`std::str::FromStr`] from a string or a number: a file accepts the same values as
/// the flag of the same name. Writes through [`std::fmt::Display`], as a number if the text is one.
pub(super) mod as_text {
    use std::fmt;
    use std::marker::PhantomData;
    use std::str::FromStr;

    use serde::de::{Deserializer, Error, Visitor};
    use serde::ser::Serializer;

    pub(in crate::config) fn serialize<T: fmt::Display, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let Some(value) = value else { return to.serialize_none() };
        let text = value.to_string();
        // A number must print back to the same text: a file may have the name 007, and a folder
        // 1e3.
        match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(number), _) if number.to_string() == text => to.serialize_i64(number),
            (_, Ok(number)) if number.to_string() == text => to.serialize_f64(number),
            _ => to.serialize_str(&text),
        }
    }

    pub(in crate::config) fn deserialize<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err = String>,
        D: Deserializer<'de>,
    {
        from.deserialize_any(Text(PhantomData)).map(Some)
    }

    struct Text<T>(PhantomData<T>);

    impl<T: FromStr<Err = String>> Visitor<'_> for Text<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string or a number")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }
    }
}

/// One of several choices: by its name, which is read in any case, as by the flags.
pub(super) mod as_name {
    use clap::ValueEnum;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::{Serialize, Serializer};

    pub(in crate::config) fn serialize<T: ValueEnum, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().map(super::name).serialize(to)
    }

    pub(in crate::config) fn deserialize<'de, T: ValueEnum, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        let text = String::deserialize(from)?;
        T::from_str(&text, true).map(Some).map_err(D::Error::custom)
    }
}

/// Returns the name of one of several choices.
pub(super) fn name(choice: &impl ValueEnum) -> String {
    choice.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
