//! Keys as JSON: an object on a line for each.
//!
//! Elements are written as they are read; only the properties and groups of a stream are collected.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rdb::{Part, StreamId};
use serde_json::{Value, json};

use super::commands::id_text;
use super::{Key, WriteError};
use crate::dump::{LONGEST, type_name};

/// Writes a function library.
pub(super) fn library(out: &mut dyn Write, source: &[u8]) -> io::Result<()> {
    writeln!(out, "{}", json!({ "type": "library", "value": text(source) }))
}

/// Writes a key.
pub(super) fn key(out: &mut dyn Write, key: &Key) -> Result<(), WriteError> {
    let (kind, mut source) = rdb::payload::open(&key.payload, LONGEST)?;
    let name = type_name(kind);
    write!(out, "{{\"db\":{},\"key\":{}", key.database, text(&key.name))?;
    write!(out, ",\"type\":\"{name}\",\"expires\":{},\"value\":", json!(key.expires))?;
    let mut items = Items { out, count: 0 };
    match name {
        "string" => {}
        "stream" => items.out.write_all(b"{\"entries\":[")?,
        _ => items.out.write_all(b"[")?,
    }
    let mut stream = Stream::default();
    rdb::read_value(&mut source, kind, |part| part_of(&mut items, &mut stream, part))?;
    match name {
        "string" => {}
        "stream" => stream.finish(items.out)?,
        _ => items.out.write_all(b"]")?,
    }
    items.out.write_all(b"}\n")?;
    Ok(())
}

fn part_of(items: &mut Items<'_>, stream: &mut Stream, part: Part<'_>) -> Result<(), WriteError> {
    match part {
        Part::String(value) => write!(items.out, "{}", text(value))?,
        Part::Element(word) | Part::Member(word) => items.add(&text(word))?,
        Part::Scored(member, score) => items.add(&json!([text(member), number(score)]))?,
        Part::Field(field, value, None) => items.add(&json!([text(field), text(value)]))?,
        Part::Field(field, value, Some(time)) => {
            items.add(&json!([text(field), text(value), time]))?;
        }
        Part::Entry(id, words) => {
            let words: Vec<Value> = words.iter().map(|word| text(word)).collect();
            items.add(&json!([id_text(id), words]))?;
        }
        part => stream.add(&part),
    }
    Ok(())
}

/// Items of an array, with commas between.
struct Items<'o> {
    out: &'o mut dyn Write,
    count: u64,
}

impl Items<'_> {
    fn add(&mut self, item: &Value) -> io::Result<()> {
        let comma = if self.count == 0 { "" } else { "," };
        self.count += 1;
        write!(self.out, "{comma}{item}")
    }
}

/// The properties of a stream and its consumer groups.
#[derive(Default)]
struct Stream {
    last: StreamId,
    added: u64,
    deleted: StreamId,
    groups: Vec<Value>,
}

impl Stream {
    fn add(&mut self, part: &Part<'_>) {
        match *part {
            Part::Stream { last, added, deleted, .. } => {
                (self.last, self.added, self.deleted) = (last, added, deleted);
            }
            Part::Group { name, last, read } => self.groups.push(json!({
                "name": text(name), "last": id_text(last), "read": read, "consumers": [],
            })),
            Part::Consumer { name, seen, active } => {
                let consumer =
                    json!({ "name": text(name), "seen": seen, "active": active, "pending": [] });
                push(self.groups.last_mut(), "consumers", consumer);
            }
            Part::Pending { id, delivered, count } => {
                let group = self.groups.last_mut();
                let consumers = group.and_then(|group| group["consumers"].as_array_mut());
                let consumer = consumers.and_then(|consumers| consumers.last_mut());
                push(consumer, "pending", json!([id_text(id), delivered, count]));
            }
            _ => {}
        }
    }

    fn finish(self, out: &mut dyn Write) -> io::Result<()> {
        let (last, deleted) = (id_text(self.last), id_text(self.deleted));
        write!(out, "],\"last\":\"{last}\",\"added\":{},\"deleted\":\"{deleted}\"", self.added)?;
        write!(out, ",\"groups\":{}}}", Value::Array(self.groups))
    }
}

fn push(to: Option<&mut Value>, list: &str, item: Value) {
    if let Some(list) = to.and_then(|to| to[list].as_array_mut()) {
        list.push(item);
    }
}

/// Returns bytes as a string if they are UTF-8, else as an object with their base64.
fn text(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::from(text),
        Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
    }
}

/// Returns a score as a number; infinity, which JSON lacks, as a string.
fn number(score: f64) -> Value {
    match serde_json::Number::from_f64(score) {
        Some(number) => Value::Number(number),
        None => Value::from(score.to_string()),
    }
}
