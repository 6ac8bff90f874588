//! Hashes and sets inside a program: articles with tags, and the articles of each tag, kept
//! consistent.
//!
//! Each change of an article and of its tags is one transaction: a reader, also after a crash,
//! finds an article under exactly the tags that it has.
//!
//! ```text
//! cargo run --example articles
//! ```

use std::error::Error;
use std::time::Duration;

use perdura::prelude::*;
use perdura::{DomainRequest, Options, Perdura};

fn tag(store: &Perdura, article: &str, tag: &str) -> Result<(), perdura::Error> {
    let (tags, under) = (format!("tags:{article}"), format!("tagged:{tag}"));
    store.transaction(&[article, &tags, &under], |tx| {
        if tx.set_add(&tags, tag)? {
            tx.set_add(&under, article)?;
            tx.hash_increment(article, "tags", 1)?;
        }
        Ok(())
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let options = Options::new(dir.path().join("articles.pool")).domain(DomainRequest::Process);
    let store = Perdura::open(options.clone())?;
    for (number, title) in ["Fences", "Redo logs"].iter().enumerate() {
        let article = format!("article:{number}");
        store.hash_set(&article, "title", title)?;
        tag(&store, &article, "persistence")?;
    }
    tag(&store, "article:1", "recovery")?;
    tag(&store, "article:1", "recovery")?;
    // A field that expires by itself; the article stays.
    store.hash_set("article:1", "editing", "ada")?;
    store.hash_expire("article:1", "editing", Duration::from_secs(600))?;
    drop(store);

    let store = Perdura::open(options)?;
    let mut found = store.set_members("tagged:persistence")?;
    found.sort();
    for article in found {
        let title = store.hash_get(&article, "title")?.unwrap_or_default();
        let tags = store.hash_get(&article, "tags")?.unwrap_or_default();
        println!("{}: {} tags", String::from_utf8_lossy(&title), String::from_utf8_lossy(&tags));
        if let Some(left) = store.hash_ttl(&article, "editing")? {
            println!("  being edited, for {} s at most", left.as_secs());
        }
    }
    Ok(())
}
