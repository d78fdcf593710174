//! Builds a response body of an exact size from pieces of text, and filler between them.

/// A body as a list of pieces. Filler of any length takes no memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SyntheticBody {
    pieces: Vec<Piece>,
    len: u64,
}

/// A piece of a body: literal bytes, or filler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// These bytes.
    Bytes(Vec<u8>),
    /// Filler of this many `.` characters.
    Filler(u64),
}

/// The strings that start and end a comment, such as `<!--` and `-->`. Comments pad a body to its size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Comment(&'static str, &'static str);

pub(super) const HTML: Comment = Comment("<!--", "-->");
pub(super) const C: Comment = Comment("/*", "*/");

impl SyntheticBody {
    /// Returns the pieces of the body, which are literal bytes or filler, in order.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Returns the length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "nothing asks")]
    pub fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn push(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        if !bytes.is_empty() {
            self.pieces.push(Piece::Bytes(bytes.to_vec()));
            self.len += bytes.len() as u64;
        }
    }

    /// Appends dots until the body has `len` bytes.
    pub(super) fn fill(&mut self, len: u64) {
        if len > self.len {
            self.pieces.push(Piece::Filler(len - self.len));
            self.len = len;
        }
    }

    pub(super) fn comment(&mut self, len: u64, Comment(open, close): Comment) {
        let gap = len.saturating_sub(self.len);
        let marks = (open.len() + close.len()) as u64;
        if gap < marks {
            self.push(" ".repeat(gap as usize));
        } else {
            self.push(open);
            self.fill(len - close.len() as u64);
            self.push(close);
        }
    }
}
