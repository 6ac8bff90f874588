//! Puts the report into a document, between two marks, so that figures are never copied by hand.

use std::fs;
use std::path::{Path, PathBuf};

use crate::store::Result;

const BEGIN: &str = "<!-- embedded: begin -->\n";
const END: &str = "<!-- embedded: end -->";

/// A document with both marks.
pub struct Document {
    path: PathBuf,
    before: String,
    after: String,
}

impl Document {
    /// Reads it; refused without the marks, which is better known before a measurement than after
    /// it.
    pub fn open(path: &Path) -> Result<Document> {
        let text = fs::read_to_string(path)?;
        let missing = || format!("{} lacks {BEGIN:?} or {END:?}", path.display());
        let (before, rest) = text.split_once(BEGIN).ok_or_else(missing)?;
        let (_, after) = rest.split_once(END).ok_or_else(missing)?;
        Ok(Document { path: path.to_owned(), before: before.to_owned(), after: after.to_owned() })
    }

    /// Replaces what is between the marks.
    pub fn fill(&self, text: &str) -> Result<()> {
        let Document { path, before, after } = self;
        let text = text.trim();
        Ok(fs::write(path, format!("{before}{BEGIN}\n{text}\n\n{END}{after}"))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_replaced() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("text.md");
        fs::write(&path, format!("above\n\n{BEGIN}old\n{END}\n\nbelow\n"))?;
        Document::open(&path)?.fill("new\n")?;
        Document::open(&path)?.fill("newer\n")?;
        let expected = format!("above\n\n{BEGIN}\nnewer\n\n{END}\n\nbelow\n");
        assert_eq!(fs::read_to_string(&path)?, expected);
        fs::write(&path, "no marks")?;
        assert!(Document::open(&path).is_err());
        Ok(())
    }
}
