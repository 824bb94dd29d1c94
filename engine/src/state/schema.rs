//! Describes the shape that a type has in the encoding: names and types of fields, in order.
//!
//! The encoding is not self-describing, so bytes of an older shape could be read as something else without an error. The
//! description goes into the job's fingerprint, which refuses such a state instead. It is found by deserializing the type from
//! a deserializer that notes what it is asked for. Of an enum all variants are named but only the first one is entered.

use std::fmt;

use serde::de::value::U32Deserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer,
    MapAccess, SeqAccess, VariantAccess, Visitor,
};

/// The shape of `T`.
pub(crate) fn describe<T: DeserializeOwned>() -> String {
    let mut text = String::new();
    if T::deserialize(Tracer { text: &mut text, depth: 0 }).is_err() {
        // A type that refuses the sample (a validated one, say) is described up to there.
        text.push('!');
    }
    text
}

/// Recursive types end here.
const DEPTH_MAX: usize = 12;

struct Tracer<'a> {
    text: &'a mut String,
    depth: usize,
}

#[derive(Debug)]
struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the type cannot be described")
    }
}

impl std::error::Error for Refused {}

impl Error for Refused {
    fn custom<T: fmt::Display>(_message: T) -> Self {
        Self
    }
}

impl Tracer<'_> {
    fn inner(&mut self) -> Tracer<'_> {
        Tracer { text: self.text, depth: self.depth + 1 }
    }
}

macro_rules! primitives {
    ($($method:ident $visit:ident $sample:expr, $name:literal;)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
            self.text.push_str($name);
            visitor.$visit($sample)
        })*
    };
}

impl<'de> Deserializer<'de> for Tracer<'_> {
    type Error = Refused;

    // Samples are 1, not 0, which some types refuse.
    primitives! {
        deserialize_bool visit_bool false, "bool";
        deserialize_i8 visit_i8 1, "i8";
        deserialize_i16 visit_i16 1, "i16";
        deserialize_i32 visit_i32 1, "i32";
        deserialize_i64 visit_i64 1, "i64";
        deserialize_i128 visit_i128 1, "i128";
        deserialize_u8 visit_u8 1, "u8";
        deserialize_u16 visit_u16 1, "u16";
        deserialize_u32 visit_u32 1, "u32";
        deserialize_u64 visit_u64 1, "u64";
        deserialize_u128 visit_u128 1, "u128";
        deserialize_f32 visit_f32 1.0, "f32";
        deserialize_f64 visit_f64 1.0, "f64";
        deserialize_char visit_char 'a', "char";
        deserialize_str visit_str "", "string";
        deserialize_string visit_str "", "string";
        deserialize_bytes visit_bytes &[], "bytes";
        deserialize_byte_buf visit_bytes &[], "bytes";
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Refused> {
        // The encoding cannot carry such a type either.
        Err(Refused)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_unit()
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Refused> {
        Err(Refused)
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        if self.depth > DEPTH_MAX {
            return visitor.visit_none();
        }
        self.text.push_str("option ");
        visitor.visit_some(self.inner())
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.text.push_str("()");
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.text.push_str(name);
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.text.push_str(name);
        self.text.push(' ');
        visitor.visit_newtype_struct(self.inner())
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let elements = usize::from(self.depth <= DEPTH_MAX);
        self.sequence('[', elements, &[], ']', visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.sequence('(', len, &[], ')', visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.text.push_str(name);
        self.sequence('(', len, &[], ')', visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.text.push_str("map ");
        let left = usize::from(self.depth <= DEPTH_MAX);
        visitor.visit_map(Parts { tracer: self.inner(), left, fields: [].iter() })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.text.push_str(name);
        self.sequence('{', fields.len(), fields, '}', visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.text.push_str(name);
        self.text.push('<');
        self.text.push_str(&variants.join("|"));
        self.text.push('>');
        if self.depth > DEPTH_MAX {
            return Err(Refused);
        }
        visitor.visit_enum(self.inner())
    }
}

impl Tracer<'_> {
    fn sequence<'de, V: Visitor<'de>>(
        mut self,
        open: char,
        left: usize,
        fields: &'static [&'static str],
        close: char,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.text.push(open);
        let parts = Parts { tracer: self.inner(), left, fields: fields.iter() };
        let value = visitor.visit_seq(parts)?;
        self.text.push(close);
        Ok(value)
    }
}

/// Elements of a sequence, fields of a struct, or one entry of a map.
struct Parts<'a> {
    tracer: Tracer<'a>,
    left: usize,
    fields: std::slice::Iter<'static, &'static str>,
}

impl<'de> SeqAccess<'de> for Parts<'_> {
    type Error = Refused;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Refused> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        if let Some(field) = self.fields.next() {
            self.tracer.text.push_str(field);
            self.tracer.text.push(':');
        }
        let value = seed.deserialize(self.tracer.inner())?;
        self.tracer.text.push(',');
        Ok(Some(value))
    }
}

impl<'de> MapAccess<'de> for Parts<'_> {
    type Error = Refused;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Refused> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(self.tracer.inner()).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Refused> {
        self.tracer.text.push_str("->");
        seed.deserialize(self.tracer.inner())
    }
}

impl<'de> EnumAccess<'de> for Tracer<'_> {
    type Error = Refused;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Refused> {
        let first: U32Deserializer<Refused> = 0_u32.into_deserializer();
        Ok((seed.deserialize(first)?, self))
    }
}

impl<'de> VariantAccess<'de> for Tracer<'_> {
    type Error = Refused;

    fn unit_variant(self) -> Result<(), Refused> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Refused> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Refused> {
        self.sequence('(', len, &[], ')', visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.sequence('{', fields.len(), fields, '}', visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::num::NonZeroU32;

    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Totals {
        departures: u64,
        late: Option<i32>,
        carriers: Vec<(String, f64)>,
    }

    #[derive(Serialize, Deserialize)]
    enum Kind {
        Landed { at: i64 },
        Cancelled,
    }

    #[derive(Serialize, Deserialize)]
    struct List {
        next: Option<Box<List>>,
    }

    #[test]
    fn fields_and_their_types_are_named_in_order() {
        let totals = "Totals{departures:u64,late:option i32,carriers:[(string,f64,),],}";
        assert_eq!(describe::<Totals>(), totals);
        assert_eq!(describe::<Kind>(), "Kind<Landed|Cancelled>{at:i64,}");
        assert_eq!(describe::<BTreeMap<u16, NonZeroU32>>(), "map u16->u32");
        assert_eq!(describe::<(u64, i64)>(), "(u64,i64,)");
    }

    #[test]
    fn a_recursive_type_has_a_description_of_bounded_length() {
        assert!(describe::<List>().starts_with("List{next:option List{next:"));
    }
}
