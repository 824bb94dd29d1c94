//! Names the field in which two schemas differ.
//!
//! A schema is `[layout] <encoding> <key> -> <encoding> <value>`; key and value are spelt as the engine describes types:
//! `Name{field:type,…}`, `(type,…)`, `[type,]`, `map key->value`, `option type`, `Name<Variant|…>`, or a word. What is not
//! spelt so is compared as a whole.

use std::fmt;

/// The first difference between two schemas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaDifference {
    /// Which field: `value.carriers.0`, or `key`; empty for the schema as a whole.
    pub field: String,
    /// What it was, `None` if there was no such field.
    pub old: Option<String>,
    /// What it is, `None` if there is no such field any more.
    pub new: Option<String>,
}

impl fmt::Display for SchemaDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = match self.field.as_str() {
            "" => "its schema".to_owned(),
            field => format!("field '{field}'"),
        };
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => write!(f, "{field} was {old}, is {new}"),
            (Some(old), None) => write!(f, "{field} ({old}) is gone"),
            (None, Some(new)) => write!(f, "{field} ({new}) is new"),
            (None, None) => write!(f, "{field} differs"),
        }
    }
}

/// The first difference; `None` if the schemas are the same.
pub(super) fn schema_difference(old: &str, new: &str) -> Option<SchemaDifference> {
    if old == new {
        return None;
    }
    let whole = || SchemaDifference {
        field: String::new(),
        old: Some(old.to_owned()),
        new: Some(new.to_owned()),
    };
    // Within a type there are no blanks around an arrow.
    let (Some((old_key, old_value)), Some((new_key, new_value))) =
        (old.split_once(" -> "), new.split_once(" -> "))
    else {
        return Some(whole());
    };
    let mut path = vec!["key".to_owned()];
    if let Some(found) = part_difference(old_key, new_key, &mut path) {
        return Some(found);
    }
    path = vec!["value".to_owned()];
    Some(part_difference(old_value, new_value, &mut path).unwrap_or_else(whole))
}

fn part_difference(old: &str, new: &str, path: &mut Vec<String>) -> Option<SchemaDifference> {
    if old == new {
        return None;
    }
    match (parse(old), parse(new)) {
        (Some(old), Some(new)) => difference(&old, &new, path),
        _ => Some(at(path, Some(old.to_owned()), Some(new.to_owned()))),
    }
}

fn at(path: &[String], old: Option<String>, new: Option<String>) -> SchemaDifference {
    SchemaDifference { field: path.join("."), old, new }
}

/// A type: a word or an opening, and the parts in it with their names.
#[derive(Debug)]
struct Shape<'a> {
    text: &'a str,
    head: &'a str,
    parts: Vec<(String, Shape<'a>)>,
}

fn difference(
    old: &Shape<'_>,
    new: &Shape<'_>,
    path: &mut Vec<String>,
) -> Option<SchemaDifference> {
    if old.text == new.text {
        return None;
    }
    if old.head != new.head {
        return Some(at(path, Some(old.text.to_owned()), Some(new.text.to_owned())));
    }
    for (name, part) in &old.parts {
        let Some((_, now)) = new.parts.iter().find(|(known, _)| known == name) else {
            path.push(name.clone());
            return Some(at(path, Some(part.text.to_owned()), None));
        };
        path.push(name.clone());
        if let Some(found) = difference(part, now, path) {
            return Some(found);
        }
        path.pop();
    }
    for (name, part) in &new.parts {
        if old.parts.iter().all(|(known, _)| known != name) {
            path.push(name.clone());
            return Some(at(path, None, Some(part.text.to_owned())));
        }
    }
    // The same fields in another order.
    Some(at(path, Some(old.text.to_owned()), Some(new.text.to_owned())))
}

fn parse(text: &str) -> Option<Shape<'_>> {
    let mut parser = Parser { text, at: 0 };
    let shape = parser.shape(0)?;
    (parser.at == text.len()).then_some(shape)
}

/// Deeper types are compared as a whole; the engine's descriptions end before.
const DEPTH_MAX: usize = 64;

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn eat(&mut self, token: &str) -> bool {
        let eaten = self.rest().starts_with(token);
        if eaten {
            self.at += token.len();
        }
        eaten
    }

    /// Words up to the next sign; a blank separates a wrapper, an encoding or a layout from the type behind it.
    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let end = rest.find([' ', '{', '}', '(', ')', '[', ']', '<', '>', ',', ':', '|']);
        let word = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        // The sign before an arrow's point.
        let word = word.strip_suffix('-').unwrap_or(word);
        self.at += word.len();
        word
    }

    fn shape(&mut self, depth: usize) -> Option<Shape<'a>> {
        if depth > DEPTH_MAX {
            return None;
        }
        let begin = self.at;
        let mut parts = Vec::new();
        let word = self.word();
        let mut head_end = self.at;
        if word == "map" && self.eat(" ") {
            head_end = self.at;
            parts.push(("key".to_owned(), self.shape(depth + 1)?));
            if self.eat("->") {
                parts.push(("value".to_owned(), self.shape(depth + 1)?));
            }
        } else if !word.is_empty() && self.eat(" ") {
            // Its name is not a level of its own: `option u64` differs from `option u32` in the field that it is.
            head_end = self.at;
            let inner = self.shape(depth + 1)?;
            let text = self.text.get(begin..self.at)?;
            let head = self.text.get(begin..head_end)?;
            return Some(match inner.parts.is_empty() {
                true => Shape { text, head: text, parts: Vec::new() },
                false => Shape { text, head: self.joined(head, begin, &inner), parts: inner.parts },
            });
        } else {
            if self.eat("<") {
                self.at += self.rest().find('>')? + 1;
                head_end = self.at;
            }
            if self.eat("{") {
                head_end = self.at;
                while !self.eat("}") {
                    let name = self.word();
                    if name.is_empty() || !self.eat(":") {
                        return None;
                    }
                    let part = self.shape(depth + 1)?;
                    self.eat(",");
                    parts.push((name.to_owned(), part));
                }
            } else if let Some(close) = self.open_bracket() {
                head_end = self.at;
                while !self.eat(close) {
                    let part = self.shape(depth + 1)?;
                    self.eat(",");
                    parts.push((parts.len().to_string(), part));
                }
            } else if word.is_empty() {
                return None;
            }
        }
        let text = self.text.get(begin..self.at)?;
        Some(Shape { text, head: self.text.get(begin..head_end)?, parts })
    }

    fn open_bracket(&mut self) -> Option<&'static str> {
        if self.eat("(") {
            Some(")")
        } else if self.eat("[") {
            Some("]")
        } else {
            None
        }
    }

    /// The wrapper's name with the head of what it wraps.
    fn joined(&self, head: &'a str, begin: usize, inner: &Shape<'a>) -> &'a str {
        self.text.get(begin..begin + head.len() + inner.head.len()).unwrap_or(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(old: &str, new: &str) -> String {
        schema_difference(old, new).map(|found| found.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_field_is_named_with_both_types() {
        let old = "postcard string -> postcard Totals{n:u64,late:option i32,by:[(string,f64,),],}";
        assert_eq!(found(old, old), "");
        let new = old.replace("option i32", "option i64");
        assert_eq!(found(old, &new), "field 'value.late' was option i32, is option i64");
        let new = old.replace("f64", "f32");
        assert_eq!(found(old, &new), "field 'value.by.0.1' was f64, is f32");
        let new = old.replace("late:option i32,", "");
        assert_eq!(found(old, &new), "field 'value.late' (option i32) is gone");
        let new = old.replace("n:u64,", "n:u64,max:i64,");
        assert_eq!(found(old, &new), "field 'value.max' (i64) is new");
        let new = old.replace("postcard string ", "postcard u32 ");
        assert_eq!(found(old, &new), "field 'key' was postcard string, is postcard u32");
    }

    #[test]
    fn maps_enums_wrappers_and_layouts_are_told_apart() {
        let old =
            "tumbling 3600000 0 postcard string -> postcard map u16->Kind<Landed|Gone>{at:i64,}";
        let new = old.replace("at:i64", "at:u64");
        assert_eq!(found(old, &new), "field 'value.value.at' was i64, is u64");
        let new = old.replace("Gone", "Lost");
        assert!(found(old, &new).starts_with("field 'value.value' was Kind<Landed|Gone>{"));
        let new = old.replace("3600000", "60000");
        assert!(
            found(old, &new).starts_with("field 'key' was tumbling 3600000"),
            "{}",
            found(old, &new)
        );
        let wrapped = "postcard u8 -> postcard Id Inner{a:u8,b:Deep{c:(u8,),},}";
        let new = wrapped.replace("c:(u8,)", "c:(u16,)");
        assert_eq!(found(wrapped, &new), "field 'value.b.c.0' was u8, is u16");
        // Fields in another order are another encoding.
        let order = "postcard u8 -> postcard A{a:u8,b:u8,}";
        let new = "postcard u8 -> postcard A{b:u8,a:u8,}";
        assert_eq!(
            found(order, new),
            "field 'value' was postcard A{a:u8,b:u8,}, is postcard A{b:u8,a:u8,}"
        );
    }

    #[test]
    fn what_can_not_be_parsed_is_compared_as_a_whole() {
        assert_eq!(found("u64", "u32"), "its schema was u64, is u32");
        let deep = format!("u8 -> {}u8{}", "[".repeat(5000), "]".repeat(5000));
        assert!(found(&deep, "u8 -> u8").starts_with("field 'value' was [[["));
        for broken in ["u8 -> A{", "u8 -> A{b", "u8 -> <", "u8 -> }", "u8 -> ->", "u8 -> "] {
            assert!(schema_difference(broken, "u8 -> B").is_some(), "{broken}");
        }
    }
}
